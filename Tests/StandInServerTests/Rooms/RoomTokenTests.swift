import DecartProtocol
import StandInServer
import Testing

@Suite(.timeLimit(.minutes(1)))
struct RoomTokenTests {
    private let grant = RoomTokens.Grant(room: "room-1", identity: "client-1")

    /// In its time, and from the stand-in that made it.
    @Test func whatIsGrantedComesBack() throws {
        let tokens = RoomTokens()
        let token = try #require(tokens.token(for: grant, now: 1000))
        for (now, isValid) in [(999, false), (1000, true), (1599, true), (1600, false)] {
            #expect(tokens.grant(in: token.reveal(), now: now) == (isValid ? grant : nil), "\(now)")
        }
        #expect(RoomTokens.lifetime == 600)
        #expect(RoomTokens().grant(in: token.reveal(), now: 1000) == nil)
        #expect("\(token)" != token.reveal())
    }

    /// Changes each byte in turn.
    @Test func nothingMayBeChanged() throws {
        let tokens = RoomTokens()
        let token = Array(try #require(tokens.token(for: grant, now: 1000)).reveal().utf8)
        for index in token.indices {
            var changed = token
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            // The last Base64 digit of 32 bytes contains two unused bits.
            if index == token.count - 1 { continue }
            #expect(tokens.grant(in: String(decoding: changed, as: UTF8.self), now: 1000) == nil, "\(index)")
        }
        // Token without a signature (RFC 8725 3.1).
        let header = Base64.encode(Array(#"{"alg":"none","typ":"JWT"}"#.utf8), alphabet: .url)
        let parts = String(decoding: token, as: UTF8.self).split(separator: ".")
        #expect(tokens.grant(in: "\(header).\(parts[1]).", now: 1000) == nil)
        for text in ["", ".", "..", "...", "a.b", "a.b.c.d"] { #expect(tokens.grant(in: text, now: 1000) == nil) }
    }
}
