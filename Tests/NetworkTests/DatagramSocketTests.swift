import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

@Suite(.timeLimit(.minutes(1)))
struct DatagramSocketTests {
    private typealias Events = EventLog<Result<[UInt8], NetworkError>>

    private func open(
        to port: UInt16, from source: SourceAddresses? = nil, _ events: Events
    ) throws(NetworkError) -> DatagramSocket {
        try NetworkThread.test.sync { () throws(NetworkError) in
            guard let address = SocketAddress(ip: "127.0.0.1", port: Int(port)) else { throw NetworkError.ended }
            let socket = try DatagramSocket(to: address, from: source, on: .test)
            socket.onEvent = { events.append($0) }
            return socket
        }
    }

    @Test func datagramsPassBothWays() async throws {
        let server = try LoopbackSocket()
        let events = Events()
        let socket = try open(to: server.port, events)
        NetworkThread.test.sync { socket.send([1, 2, 3]) }
        var buffer = [UInt8](repeating: 0, count: 100)
        var from = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        withUnsafeMutablePointer(to: &from) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                #expect(recvfrom(server.descriptor, &buffer, buffer.count, 0, address, &size) == 3)
                // One without bytes is one too.
                for count in [0, 70] { _ = sendto(server.descriptor, buffer, count, 0, address, size) }
            }
        }
        #expect(await events.reaches(count: 2))
        #expect(events.elements == [.success([]), .success(Array(buffer.prefix(70)))])
        NetworkThread.test.sync { socket.close() }
    }

    /// ICMP reports a port that nobody has.
    @Test func aClosedPortIsAnError() async throws {
        let port = try LoopbackSocket.freePort()
        let events = Events()
        let socket = try open(to: port, events)
        NetworkThread.test.sync { socket.send([1]) }
        #expect(await events.first { $0 == .failure(.system(ECONNREFUSED)) } != nil)
        #expect(events.elements.count == 1)
        // Nothing follows.
        NetworkThread.test.sync {
            socket.send([1])
            socket.close()
        }
    }

    @Test func afterCloseNothingComes() throws {
        let server = try LoopbackSocket()
        let events = Events()
        let socket = try open(to: server.port, events)
        NetworkThread.test.sync {
            socket.close()
            socket.close()
            socket.send([1])
        }
        #expect(!server.hasReceived() && events.elements.isEmpty)
    }

    @Test func theSourceIsUsed() throws {
        let server = try LoopbackSocket()
        let events = Events()
        let socket = try open(
            to: server.port, from: SourceAddresses(absence: "none") { ["::1", "127.0.0.9"] }, events)
        NetworkThread.test.sync { socket.send([1]) }
        var byte: UInt8 = 0
        let sender = SocketAddress { recvfrom(server.descriptor, &byte, 1, 0, $0, $1) > 0 ? 0 : -1 }
        #expect(sender?.ip == "127.0.0.9")
        NetworkThread.test.sync { socket.close() }
        #expect(throws: NetworkError.noSource("none")) {
            _ = try open(to: server.port, from: SourceAddresses(absence: "none") { ["::1"] }, events)
        }
    }
}
