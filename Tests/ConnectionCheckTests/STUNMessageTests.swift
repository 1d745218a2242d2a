import ConnectionCheck
import ICE
import Testing

struct STUNMessageTests {
    private static func bytes(_ hex: String) -> [UInt8] {
        hex.split(whereSeparator: \.isWhitespace).compactMap { UInt8($0, radix: 16) }
    }

    /// RFC 5769 §2.4, a request with long-term credentials.
    private static let request = bytes(
        """
        00 01 00 60 21 12 a4 42 78 ad 34 33 c6 ad 72 c0 29 da 41 2e
        00 06 00 12 e3 83 9e e3 83 88 e3 83 aa e3 83 83 e3 82 af e3 82 b9 00 00
        00 15 00 1c 66 2f 2f 34 39 39 6b 39 35 34 64 36 4f 4c 33 34 6f 4c 39 46 53 54 76 79 36 34 73 41
        00 14 00 0b 65 78 61 6d 70 6c 65 2e 6f 72 67 00
        00 08 00 14 f6 70 24 65 6d d6 4a 3e 02 b8 e0 71 2e 85 c9 a2 8c a8 96 66
        """)
    /// RFC 5769 §2.2, a response with an IPv4 address.
    private static let response = bytes(
        """
        01 01 00 3c 21 12 a4 42 b7 e7 a7 01 bc 34 d6 86 fa 87 df ae
        80 22 00 0b 74 65 73 74 20 76 65 63 74 6f 72 20
        00 20 00 08 00 01 a1 47 e1 12 a6 43
        00 08 00 14 2b 91 f5 99 fd 9e 90 c3 8c 74 89 f9 2a f9 ba 53 f0 6b e7 d7
        80 28 00 04 c0 7d 4c 96
        """)

    @Test func longTermCredentials() throws {
        let username = "\u{30DE}\u{30C8}\u{30EA}\u{30C3}\u{30AF}\u{30B9}"
        let key = try #require(
            STUNMessage.longTermKey(username: username, realm: "example.org", password: "TheMatrIX"))
        let message = STUNMessage(
            .binding, transaction: Array(Self.request[8..<20]),
            attributes: [
                .init(STUNMessage.AttributeType.username, [UInt8](username.utf8)),
                .init(STUNMessage.AttributeType.nonce, [UInt8]("f//499k954d6OL34oL9FSTvy64sA".utf8)),
                .init(STUNMessage.AttributeType.realm, [UInt8]("example.org".utf8)),
            ])
        #expect(message.encoded(key: key) == Self.request)
    }

    @Test func aResponseIsRead() throws {
        let message = try #require(STUNMessage(decoding: Self.response))
        #expect(message.method == .binding && message.messageClass == .success)
        #expect(message.mappedAddress == "192.0.2.1:32853")
        #expect(STUNMessage.size(of: Self.response) == Self.response.count)
    }

    /// Every prefix, every single changed byte: no trap, and a prefix is no message.
    @Test func damagedMessages() {
        for count in 0..<Self.response.count {
            #expect(STUNMessage(decoding: Array(Self.response.prefix(count))) == nil)
        }
        for index in Self.response.indices {
            for value in [UInt8(0), 1, 0x7F, 0xFF] {
                var bytes = Self.response
                bytes[index] = value
                let message = STUNMessage(decoding: bytes)
                _ = (message?.error, message?.mappedAddress)
            }
        }
    }

    // MARK: The client

    private static let transaction = [UInt8](repeating: 7, count: 12)

    private func client(_ url: String) throws -> STUNClient {
        STUNClient(server: try ICEServer(url: url), newTransaction: { Self.transaction })
    }

    private func answer(
        _ method: STUNMessage.Method, _ messageClass: STUNMessage.Class, _ attributes: [STUNMessage.Attribute],
        transaction: [UInt8] = transaction
    ) throws -> [UInt8] {
        var message = STUNMessage(method, transaction: transaction, attributes: attributes)
        message.messageClass = messageClass
        return try #require(message.encoded())
    }

    private func error(_ code: Int, nonce: String = "n") -> [STUNMessage.Attribute] {
        [
            .init(STUNMessage.AttributeType.errorCode, [0, 0, UInt8(code / 100), UInt8(code % 100)] + "why".utf8),
            .init(STUNMessage.AttributeType.realm, [UInt8]("realm".utf8)),
            .init(STUNMessage.AttributeType.nonce, [UInt8](nonce.utf8)),
        ]
    }

    @Test func aBindingRequestIsAnswered() throws {
        var client = try client("stun:192.0.2.1")
        let request = try #require(STUNMessage(decoding: client.start()))
        #expect(request.method == .binding && request.attributes.isEmpty)
        let mapped = STUNMessage.Attribute(STUNMessage.AttributeType.mappedAddress, [0, 1, 0, 80, 192, 0, 2, 7])
        // The answer to another request is ignored.
        let other = try answer(.binding, .success, [mapped], transaction: [UInt8](repeating: 8, count: 12))
        #expect(client.received(other) == .none)
        #expect(client.received([1, 2, 3]) == .none)
        try #expect(client.received(answer(.binding, .success, [mapped])) == .done(.mapped("192.0.2.7:80")))
    }

    @Test func theSecond401MeansWrongCredentials() throws {
        var client = try client("turn:user:password@192.0.2.1")
        let first = try #require(STUNMessage(decoding: client.start()))
        #expect(first[STUNMessage.AttributeType.username] == nil)
        #expect(first[STUNMessage.AttributeType.requestedTransport] == [17, 0, 0, 0])
        guard case .send(let bytes) = client.received(try answer(.allocate, .error, error(401))) else {
            Issue.record("no second request")
            return
        }
        let second = try #require(STUNMessage(decoding: bytes))
        #expect(second[STUNMessage.AttributeType.username] == [UInt8]("user".utf8))
        #expect(second[STUNMessage.AttributeType.messageIntegrity]?.count == 20)
        try #expect(client.received(answer(.allocate, .error, error(401))) == .done(.refused))
    }

    @Test func aStaleNonceIsReplacedOnce() throws {
        var client = try client("turn:user:password@192.0.2.1")
        _ = client.start()
        _ = client.received(try answer(.allocate, .error, error(401)))
        guard case .send(let bytes) = client.received(try answer(.allocate, .error, error(438, nonce: "new"))) else {
            Issue.record("no third request")
            return
        }
        #expect(STUNMessage(decoding: bytes)?[STUNMessage.AttributeType.nonce] == [UInt8]("new".utf8))
        try #expect(
            client.received(answer(.allocate, .error, error(438)))
                == .done(.failed(code: 438, reason: "why")))
    }

    @Test func aRelayIsReleased() throws {
        var client = try client("turn:user:password@192.0.2.1")
        _ = client.start()
        _ = client.received(try answer(.allocate, .error, error(401)))
        let relayed = STUNMessage.Attribute(
            STUNMessage.AttributeType.xorRelayedAddress, [0, 1, 0x21, 0x12, 0x21, 0x12, 0xA4, 0x42])
        guard
            case .done(.relayed(let address, let release)) = client.received(try answer(.allocate, .success, [relayed]))
        else {
            Issue.record("no relay")
            return
        }
        #expect(address == "0.0.0.0:0")
        let message = try #require(STUNMessage(decoding: release))
        #expect(message.method == .refresh && message[STUNMessage.AttributeType.lifetime] == [0, 0, 0, 0])
        try #expect(client.received(answer(.allocate, .error, error(486))) != .none)
    }

    @Test func otherErrorsAreReported() throws {
        var client = try client("turn:user:password@192.0.2.1")
        _ = client.start()
        try #expect(
            client.received(answer(.allocate, .error, error(486))) == .done(.failed(code: 486, reason: "why")))
        // Neither realm nor nonce.
        _ = client.start()
        let bare = STUNMessage.Attribute(STUNMessage.AttributeType.errorCode, [0, 0, 4, 1])
        try #expect(client.received(answer(.allocate, .error, [bare])) == .done(.invalid))
    }
}
