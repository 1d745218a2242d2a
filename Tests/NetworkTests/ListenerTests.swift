import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

@Suite(.timeLimit(.minutes(1)))
struct ListenerTests {
    /// Whether a socket that shares no address can be bound here.
    private func isFree(_ address: SocketAddress) -> Bool {
        let descriptor = socket(address.family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        return address.withSocketAddress { bind(descriptor, $0, $1) } == 0
    }

    @Test(arguments: ["127.0.0.1", "::1"]) func acceptsConnections(ip: String) async throws {
        let address = try #require(SocketAddress(ip: ip, port: 0))
        let accepted = EventLog<ByteStream>()
        let listener = try Listener(at: address, on: .test) { stream in
            accepted.append(stream)
            stream.onEvent = { [unowned stream] event in
                if case .received(let bytes) = event { stream.write(bytes) }
            }
            stream.start()
        }
        #expect(listener.port > 0 && listener.address.ip == ip)
        // More than one turn of the loop accepts.
        let peers = (0..<40).map { _ in
            let descriptor = socket(address.family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            #expect(listener.address.withSocketAddress { connect(descriptor, $0, $1) } == 0)
            return PlainPeer(taking: descriptor)
        }
        for (index, peer) in peers.enumerated() {
            peer.send([UInt8(index)])
            #expect(peer.receive(1) == [UInt8(index)])
        }
        #expect(accepted.elements.count == peers.count)
        NetworkThread.test.sync {
            for stream in accepted.elements {
                #expect(stream.localAddress == listener.address && stream.remoteAddress?.ip == ip)
                stream.close()
            }
        }
        listener.close()
    }

    @Test func closeFreesThePort() throws {
        let listener = try Listener(at: .loopback(), on: .test) { _ in }
        #expect(!isFree(listener.address))
        listener.close()
        listener.close()
        #expect(isFree(listener.address))
        let (descriptor, error) = LoopbackSocket.connect(to: UInt16(clamping: listener.port))
        close(descriptor)
        #expect(error == ECONNREFUSED)
    }

    @Test func closeOnTheThreadDoesNotWait() throws {
        let listener = try Listener(at: .loopback(), on: .test) { _ in }
        NetworkThread.test.sync {
            listener.close()
            #expect(isFree(listener.address))
        }
    }

    @Test func aPortInUseIsAnError() throws {
        let taken = try LoopbackSocket(stream: true)
        #expect(throws: NetworkError.system(EADDRINUSE)) {
            _ = try Listener(at: .loopback(Int(taken.port)), on: .test) { _ in }
        }
        let elsewhere = try #require(SocketAddress(ip: "192.0.2.1", port: 0))
        #expect(throws: NetworkError.system(EADDRNOTAVAIL)) {
            _ = try Listener(at: elsewhere, on: .test) { _ in }
        }
    }

    @Test(arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM]) func withoutADescriptorItPauses(code: CInt) async throws
    {
        let calls = EventLog<CInt>()
        let listener = try Listener(
            at: .loopback(), backlog: 8, on: .test, pause: .seconds(1000),
            acceptNext: { descriptor in
                calls.append(descriptor)
                errno = code
                return -1
            }, onAccept: { _ in })
        let peer = PlainPeer(connectingTo: listener.port)
        #expect(await calls.reaches(count: 1))
        // The connection still waits, and the loop serves others.
        for _ in 0..<20 { NetworkThread.test.sync {} }
        #expect(calls.elements.count == 1)
        listener.close()
        #expect(peer.receiveAll().end == .error(ECONNRESET))
    }

    @Test func afterThePauseItAccepts() async throws {
        try await accepts(after: 3, EMFILE, pause: .milliseconds(1))
    }

    /// The peer was gone before its turn came.
    @Test func anAbortedConnectionIsLeftOut() async throws {
        try await accepts(after: 1, ECONNABORTED, pause: .seconds(1000))
    }

    /// The first calls of `accept` fail with this error, and the next one gets the connection.
    private func accepts(after failures: Int, _ error: CInt, pause: Duration) async throws {
        let (calls, accepted) = (EventLog<CInt>(), EventLog<Bool>())
        let listener = try Listener(
            at: .loopback(), backlog: 8, on: .test, pause: pause,
            acceptNext: { descriptor in
                calls.append(descriptor)
                guard calls.elements.count > failures else {
                    errno = error
                    return -1
                }
                return acceptNext(descriptor)
            },
            onAccept: { stream in
                accepted.append(true)
                stream.close()
            })
        let peer = PlainPeer(connectingTo: listener.port)
        #expect(await accepted.reaches(count: 1))
        #expect(peer.receiveAll().end == .inOrder)
        listener.close()
    }
}

/// A connection that does not block; −1 with EAGAIN if none waits.
private func acceptNext(_ listener: CInt) -> CInt {
    let descriptor = accept(listener, nil, nil)
    if descriptor >= 0 { _ = fcntl(descriptor, F_SETFL, O_NONBLOCK) }
    return descriptor
}
