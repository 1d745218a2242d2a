import ICE
import Testing

/// Answers to consent checks from a host on the path that does not know the password. `DeadPeerTests` has the peer's own.
struct ConsentChecksTests {
    /// RFC 8489 §14.7.
    private func fingerprint(_ bytes: [UInt8]) -> [UInt8] {
        var crc = UInt32.max
        for byte in bytes {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xedb8_8320 : crc >> 1 }
        }
        let value = ~crc ^ 0x5354_554e
        return [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
    }

    /// - Parameter code: of an error response; nil: a success response.
    private func forged(_ code: UInt8?, transaction: [UInt8]) -> [UInt8] {
        let attributes: [UInt8] = code.map { [0x00, 0x09, 0, 4, 0, 0, 4, $0] } ?? []
        let head: [UInt8] = [1, code == nil ? 0x01 : 0x11, 0, UInt8(attributes.count + 8)]
        let message = head + transaction + attributes
        return message + [0x80, 0x28, 0, 4] + fingerprint(message)
    }

    /// The errors are 400, 401, 403, 420, 487.
    @Test(arguments: [nil, 0, 1, 3, 20, 87] as [UInt8?])
    func aResponseWithoutMessageIntegrityConfirmsNothing(code: UInt8?) throws {
        let checks = ConsentChecks(local: "abcd", remote: "efgh", remotePassword: "a-password-of-22-letters")
        var transaction: [UInt8] = []
        checks.withCheck(isControlling: true, now: .zero) { transaction = Array($0.dropFirst(4).prefix(16)) }
        try #require(transaction.count == 16)
        var datagram = forged(code, transaction: transaction)
        let roundTrip = datagram.withUnsafeMutableBytes { checks.roundTrip(of: $0, now: .seconds(1)) }
        #expect(roundTrip == nil)
        #expect(checks.isWaiting)
    }
}
