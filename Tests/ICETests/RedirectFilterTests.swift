import Glibc
import ICE
import TestSupport
import Testing

/// Answers of STUN and TURN servers that name another server.
@Suite(.timeLimit(.minutes(1)))
struct RedirectFilterTests {
    private typealias Attribute = (type: Int, value: [UInt8])

    private static func bytes(_ value: Int) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }

    private static func message(
        _ attributes: [Attribute], type: Int = 0x0113, id: [UInt8] = [UInt8](repeating: 7, count: 12)
    ) -> [UInt8] {
        var body: [UInt8] = []
        for (type, value) in attributes {
            body += bytes(type)
            body += bytes(value.count)
            body += value
            body += [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
        }
        var message = bytes(type)
        message += bytes(body.count)
        message += [0x21, 0x12, 0xa4, 0x42] as [UInt8]
        return message + id + body
    }

    private static let tryAlternate: Attribute = (0x0009, [0, 0, 3, 0] + [UInt8]("Try".utf8))

    private static func alternate(_ address: [UInt8], port: Int = 3478) -> Attribute {
        let family: [UInt8] = [0, address.count == 4 ? 1 : 2]
        return (0x8023, family + bytes(port) + address)
    }

    private static func six(_ first: [UInt8], _ last: [UInt8]) -> [UInt8] {
        first + [UInt8](repeating: 0, count: 16 - first.count - last.count) + last
    }

    private static let local: [[UInt8]] = [
        [127, 0, 0, 1], [127, 9, 9, 9], [0, 0, 0, 0], [0, 1, 2, 3], [169, 254, 169, 254], six([], []), six([], [1]),
        six([0xfe, 0x80], [5]), six([0xfe, 0xbf, 1], [5]), six([], [0xff, 0xff, 127, 0, 0, 1]),
        six([], [0xff, 0xff, 169, 254, 1, 1]), six([], [0xff, 0xff, 0, 0, 0, 0]),
    ]
    private static let others: [[UInt8]] = [
        [192, 0, 2, 1], [10, 0, 0, 1], [128, 0, 0, 1], [126, 255, 255, 255], [169, 253, 1, 1], [255, 255, 255, 255],
        six([0x20, 1, 0x0d, 0xb8], [1]), six([0xfe, 0xc0], [1]), six([0xfd], [1]), six([], [2]),
        six([], [0xff, 0xff, 192, 0, 2, 1]), six([0, 0, 0, 1], [1]), six([], [1, 0, 0, 0, 0, 0, 0, 1]),
    ]

    private static func send(_ bytes: [UInt8], from sender: LoopbackSocket, to port: UInt16) {
        var address = LoopbackSocket.address(port: port)
        let sent = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(sender.descriptor, bytes, bytes.count, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        #expect(sent == bytes.count)
    }

    /// The first datagrams that a socket with the filter receives of these, sorted.
    private func received(_ count: Int, of datagrams: [[UInt8]]) throws -> [[UInt8]] {
        let (receiver, sender) = (try LoopbackSocket(), try LoopbackSocket())
        try #require(RedirectFilter.attach(to: receiver.descriptor))
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(receiver.descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        for datagram in datagrams { Self.send(datagram, from: sender, to: receiver.port) }
        var buffer = [UInt8](repeating: 0, count: 2048)
        let received = (0..<count).map { _ in
            let size = recv(receiver.descriptor, &buffer, buffer.count, 0)
            return Array(buffer.prefix(max(0, size)))
        }
        return Self.sorted(received)
    }

    private static func sorted(_ datagrams: [[UInt8]]) -> [[UInt8]] {
        datagrams.sorted { $0.lexicographicallyPrecedes($1) }
    }

    @Test func answersThatLeadToThisMachineAreDropped() throws {
        let refused = Self.local.flatMap { address in
            // Behind other attributes too, in requests of each kind.
            [
                Self.message([Self.tryAlternate, Self.alternate(address)]),
                Self.message([Self.alternate(address), Self.tryAlternate], type: 0x0111),
                Self.message([(0x8022, [1, 2, 3, 4, 5]), (0x0015, [9]), Self.tryAlternate, Self.alternate(address)]),
            ]
        }
        let last: [UInt8] = [0x80]
        #expect(try received(1, of: refused + [last]) == [last])
    }

    @Test func allElsePasses() throws {
        let answers = Self.others.map { Self.message([Self.tryAlternate, Self.alternate($0)]) }
        let local = Self.alternate([127, 0, 0, 1])
        let passing =
            answers + [
                // No error response, no STUN, media, and what is shorter than any of them.
                Self.message([local], type: 0x0103), Self.message([local], type: 0x0101),
                Self.message([local], type: 0x0001), [UInt8](repeating: 0x80, count: 1200),
                [UInt8](repeating: 22, count: 60), Self.message([]), Self.message([Self.tryAlternate]), [4], [0xff],
            ]
        #expect(try received(passing.count, of: passing) == Self.sorted(passing))
    }

    @Test func attributesWithoutEndAreDropped() throws {
        let many = (0..<17).map { _ -> Attribute in (0x8022, [UInt8](repeating: 65, count: 3)) }
        let few = Self.message(Array(many.prefix(15)))
        let dropped = Self.message(many + [Self.alternate([127, 0, 0, 1])])
        #expect(try received(1, of: [dropped, few]) == [few])
    }

    /// A server that leads elsewhere on this machine is asked again, and nobody else is.
    @Test(arguments: ["stun:127.0.0.1:", "turn://u:p@127.0.0.1:"]) func anAgentDoesNotFollow(url: String) async throws {
        let (server, other) = (try LoopbackSocket(), try LoopbackSocket())
        let peer = try TestPeer(
            controlling: true, servers: [ICEServer(url: "\(url)\(server.port)")], permits: { !$0.hasPrefix("127.") })
        /// How often a request has come.
        let repetitions = EventLog<Int>()
        let otherPort = Int(other.port)
        detachThread {
            var counts: [[UInt8]: Int] = [:]
            var (buffer, address) = ([UInt8](repeating: 0, count: 2048), sockaddr_in())
            while true {
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let count = withUnsafeMutablePointer(to: &address) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        recvfrom(server.descriptor, &buffer, buffer.count, 0, $0, &length)
                    }
                }
                guard count >= 20 else { return }
                let id = Array(buffer[8..<20])
                counts[id, default: 0] += 1
                repetitions.append(counts[id] ?? 0)
                let type = Int(buffer[0]) << 8 | Int(buffer[1]) | 0x0110
                let answer = Self.message(
                    [Self.tryAlternate, Self.alternate([127, 0, 0, 1], port: otherPort)], type: type, id: id)
                Self.send(answer, from: server, to: UInt16(bigEndian: address.sin_port))
            }
        }
        peer.agent.gatherCandidates()
        #expect(await repetitions.first { $0 == 3 } != nil)
        #expect(!other.hasReceived())
        await TestPeer.release(peer)
        // Ends the thread.
        Self.send([0], from: other, to: server.port)
    }
}
