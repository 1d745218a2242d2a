import MediaSecurity
import Testing

@Suite(.timeLimit(.minutes(1)))
struct MessageAuthenticationTests {
    /// Test vectors of RFC 4231 4.3 and 4.7: a short key, and one longer than a block.
    @Test func knownAnswers() throws {
        let short = try #require(
            MessageAuthentication.sha256(key: Array("Jefe".utf8), message: Array("what do ya want for nothing?".utf8)))
        #expect(hex(short) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        let long = try #require(
            MessageAuthentication.sha256(
                key: [UInt8](repeating: 0xaa, count: 131),
                message: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8)))
        #expect(hex(long) == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
        #expect(MessageAuthentication.sha256(key: [1], message: [])?.count == 32)
    }

    @Test func comparing() {
        #expect(MessageAuthentication.areEqual([1, 2], [1, 2]))
        #expect(!MessageAuthentication.areEqual([1, 2], [1, 3]))
        #expect(!MessageAuthentication.areEqual([1, 2], [1, 2, 3]))
        #expect(MessageAuthentication.areEqual([], []))
    }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
