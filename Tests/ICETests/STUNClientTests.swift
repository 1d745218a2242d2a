import ICE
import Testing

struct STUNClientTests {
    private enum Attribute {
        static let (mapped, username, integrity, error): (UInt16, UInt16, UInt16, UInt16) = (0x01, 0x06, 0x08, 0x09)
        static let (lifetime, realm, nonce): (UInt16, UInt16, UInt16) = (0x0d, 0x14, 0x15)
        static let (relayed, transport): (UInt16, UInt16) = (0x16, 0x19)
    }

    private func client(_ url: String) throws -> STUNClient { STUNClient(server: try ICEServer(url: url)) }

    private func message(_ type: UInt16, to request: [UInt8], _ attributes: [(UInt16, [UInt8])]) -> [UInt8] {
        func bytes(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }
        var body: [UInt8] = []
        for (type, value) in attributes {
            body += bytes(type)
            body += bytes(UInt16(value.count))
            body += value
            body += [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
        }
        var head: [UInt8] = bytes(type)
        head += bytes(UInt16(body.count))
        return head + Array(request[4..<20]) + body
    }

    private func error(_ code: Int, to request: [UInt8], nonce: String = "n") -> [UInt8] {
        message(
            0x0113, to: request,
            [
                (Attribute.error, [0, 0, UInt8(code / 100), UInt8(code % 100)] + [UInt8]("why".utf8)),
                (Attribute.realm, [UInt8]("realm".utf8)), (Attribute.nonce, [UInt8](nonce.utf8)),
            ])
    }

    /// The attributes of a message.
    private func attributes(_ bytes: [UInt8]) -> [UInt16: [UInt8]] {
        var (found, at): ([UInt16: [UInt8]], Int) = ([:], 20)
        while at + 4 <= bytes.count {
            let size = Int(bytes[at + 2]) << 8 + Int(bytes[at + 3])
            found[UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1])] = Array(bytes[(at + 4)...].prefix(size))
            at += 4 + (size + 3) & ~3
        }
        return found
    }

    private func sent(_ step: STUNClient.Step) throws -> [UInt8] {
        guard case .send(let bytes) = step else { throw Unexpected(step: step) }
        return bytes
    }

    private struct Unexpected: Error { var step: STUNClient.Step }

    @Test func aBindingRequestIsAnswered() throws {
        let client = try client("stun:192.0.2.1")
        let request = client.start()
        #expect(request.prefix(8) == [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42] && request.count == 20)
        let answer = message(0x0101, to: request, [(Attribute.mapped, [0, 1, 0, 80, 192, 0, 2, 7])])
        #expect(STUNClient.size(of: answer) == answer.count)
        // The answer to another request, and damaged ones, are ignored.
        var other = answer
        other[12] ^= 1
        let ignored: [[UInt8]] = [other, [1, 2, 3], request]
        for bytes in ignored + (0..<answer.count).map({ Array(answer.prefix($0)) }) {
            let step = client.received(bytes)
            #expect(step == STUNClient.Step.none)
        }
        #expect(client.received(answer) == .done(.mapped))
    }

    /// Every single changed byte: no trap.
    @Test func damagedMessages() throws {
        for index in 0..<60 {
            for value in [UInt8(0), 1, 0x7f, 0xff] {
                let client = try client("turn:user:password@192.0.2.1")
                var bytes = error(401, to: client.start())
                guard index < bytes.count else { return }
                bytes[index] = value
                _ = client.received(bytes)
            }
        }
    }

    @Test func theSecond401MeansWrongCredentials() throws {
        let client = try client("turn:user:password@192.0.2.1")
        let first = client.start()
        #expect(attributes(first)[Attribute.username] == nil)
        #expect(attributes(first)[Attribute.transport] == [17, 0, 0, 0])
        let second = try sent(client.received(error(401, to: first)))
        let values = attributes(second)
        #expect(values[Attribute.username] == [UInt8]("user".utf8) && values[Attribute.realm] == [UInt8]("realm".utf8))
        #expect(values[Attribute.integrity]?.count == 20)
        #expect(client.received(error(401, to: second)) == .done(.refused))
    }

    @Test func aStaleNonceIsReplacedOnce() throws {
        let client = try client("turn:user:password@192.0.2.1")
        let second = try sent(client.received(error(401, to: client.start())))
        let third = try sent(client.received(error(438, to: second, nonce: "new")))
        #expect(attributes(third)[Attribute.nonce] == [UInt8]("new".utf8))
        #expect(client.received(error(438, to: third)) == .done(.failed(code: 438, reason: "why")))
    }

    @Test func aRelayIsReleased() throws {
        let client = try client("turn:user:password@192.0.2.1")
        let second = try sent(client.received(error(401, to: client.start())))
        let relay = message(0x0103, to: second, [(Attribute.relayed, [0, 1, 0x21, 0x12, 0x21, 0x12, 0xa4, 0x42])])
        guard case .done(.relayed(let release)) = client.received(relay) else {
            Issue.record("no relay")
            return
        }
        let values = attributes(release)
        #expect(release.prefix(2) == [0, 4] && values[Attribute.lifetime] == [0, 0, 0, 0])
        #expect(values[Attribute.integrity]?.count == 20)
    }

    @Test func otherErrorsAreReported() throws {
        let client = try client("turn:user:password@192.0.2.1")
        #expect(
            client.received(error(486, to: client.start())) == .done(.failed(code: 486, reason: "why")))
        // Neither realm nor nonce.
        let bare = message(0x0113, to: client.start(), [(Attribute.error, [0, 0, 4, 1])])
        #expect(client.received(bare) == .done(.invalid))
    }
}
