import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

/// The server's end of a request, against a plain socket.
@Suite(.timeLimit(.minutes(1)))
struct HTTPServerConnectionTests {
    private enum Seen: Sendable, Equatable {
        case head(String, String)
        case body([UInt8])
        case end, ended

        init(_ event: HTTPServerConnection.Event) {
            self =
                switch event {
                case .head(let head): .head(head.method, head.target)
                case .body(let bytes): .body(bytes)
                case .end: .end
                case .ended: .ended
                }
        }
    }

    /// A connection with its events, of which one may be answered.
    private final class Server: Sendable {
        let seen = EventLog<Seen>()
        let peer: PlainPeer
        private let connection: Watched<HTTPServerConnection?>

        init(_ onEvent: @escaping @Sendable (HTTPServerConnection, HTTPServerConnection.Event) -> Void = { _, _ in })
            throws
        {
            let pair = try StreamPair(isStarted: false)
            peer = pair.peer
            let connection = Watched<HTTPServerConnection?>(nil)
            self.connection = connection
            let seen = seen
            pair.onThread { stream in
                let made = HTTPServerConnection(stream) { event in
                    seen.append(Seen(event))
                    if let connection = connection.value { onEvent(connection, event) }
                }
                connection.change { $0 = made }
            }
        }

        func onThread(_ body: @escaping @Sendable (HTTPServerConnection) -> Void) {
            NetworkThread.test.sync { [connection] in
                if let connection = connection.value { body(connection) }
            }
        }
    }

    private static let ok = HTTPResponseHead(status: 200, fields: ["Content-Length": "2", "Connection": "close"])

    @Test func aRequestIsAnswered() async throws {
        let server = try Server { connection, event in
            if case .end = event { connection.answer(Self.ok, body: Array("hi".utf8)) }
        }
        server.peer.send(Array("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".utf8))
        let (bytes, end) = server.peer.receiveAll()
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("\r\n\r\nhi") && end == .inOrder)
        #expect(server.seen.elements == [.head("POST", "/x"), .body(Array("abc".utf8)), .end])
    }

    /// RFC 9110 §9.3.2.
    @Test func anAnswerToHEADHasNoBody() async throws {
        let server = try Server { connection, event in
            if case .end = event { connection.answer(Self.ok, body: Array("hi".utf8)) }
        }
        server.peer.send(Array("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
        let text = String(decoding: server.peer.receiveAll().bytes, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("\r\n\r\n"))
    }

    @Test func anAnswerAtTheHeadIsTheLast() async throws {
        let server = try Server { connection, event in
            if case .head = event { connection.answer(Self.ok, body: Array("no".utf8)) }
        }
        // What still comes does not reset the connection before the answer is read.
        server.peer.send(Array("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".utf8) + pattern(100_000))
        #expect(String(decoding: server.peer.receiveAll().bytes, as: UTF8.self).hasSuffix("no"))
        #expect(server.seen.elements == [.head("POST", "/")])
    }

    @Test(arguments: [
        ("SSH-2.0-x\r\n\r\n", "400"), ("GET / HTTP/1.1\r\nA b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 17 << 10), "431"),
    ]) func requestsThatAreNone(bytes: String, status: String) async throws {
        let server = try Server()
        server.peer.send(Array(bytes.utf8))
        let (answer, end) = server.peer.receiveAll()
        #expect(String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 \(status) "))
        #expect(end == .inOrder)
        #expect(await server.seen.reaches(count: 1))
        #expect(server.seen.elements == [.ended])
    }

    @Test func thePeersEndIsReported() async throws {
        let server = try Server()
        server.peer.send(Array("GET / HTTP/1.1\r\nHo".utf8))
        server.peer.close()
        #expect(await server.seen.reaches(count: 1))
        #expect(server.seen.elements == [.ended])
    }

    // MARK: Holding

    private static let held: @Sendable (HTTPServerConnection, HTTPServerConnection.Event) -> Void = {
        connection, event in
        if case .head = event { connection.hold() }
    }

    @Test func aHeldRequestDeliversNothingMore() async throws {
        let server = try Server(Self.held)
        server.peer.send(Array("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".utf8))
        #expect(await server.seen.reaches(count: 1))
        for _ in 0..<3 { server.onThread { _ in } }
        #expect(server.seen.elements.count == 1)
        server.onThread { $0.close() }
        #expect(server.peer.receiveAll().end == .inOrder)
    }

    @Test func theEndOfAHeldRequestIsReported() async throws {
        let server = try Server(Self.held)
        server.peer.send(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
        #expect(await server.seen.reaches(count: 1))
        server.peer.close()
        #expect(await server.seen.reaches(count: 2))
        #expect(server.seen.elements == [.head("GET", "/"), .ended])
    }

    /// What follows a held request waits at the peer, beyond a limit.
    @Test func aHeldRequestTakesLittle() async throws {
        let server = try Server(Self.held)
        server.peer.send(Array("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n".utf8))
        #expect(await server.seen.reaches(count: 1))
        let peer = server.peer
        let isSent = Watched(false)
        detachThread {
            peer.send(pattern(400_000))
            isSent.change { $0 = true }
        }
        let isPaused = eventually {
            let isReading = Watched(true)
            server.onThread { connection in isReading.change { $0 = connection.stream.isReading } }
            return !isReading.value
        }
        #expect(isPaused && !isSent.value)
        server.onThread { $0.close() }
    }

    // MARK: Upgrades

    @Test func anUpgradeKeepsWhatFollows() async throws {
        let messages = EventLog<[UInt8]>()
        let server = try Server { connection, event in
            guard case .head = event else { return }
            let limits = WebSocketLimits(messageSize: 100, fragments: 2)
            let socket = connection.upgrade(adding: ["X-More": "1"], limits: limits)
            socket?.onEvent = { event in
                guard case .message(.text(let bytes)) = event else { return }
                messages.append(bytes)
                socket?.send(.text, bytes)
                socket?.finish(within: .seconds(40))
            }
            socket?.start()
        }
        let head = [
            "GET /chat HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        // RFC 6455 §5.7: "Hello", masked.
        let hello: [UInt8] = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]
        server.peer.send(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + hello)
        let (bytes, end) = server.peer.receiveAll()
        let text = String(decoding: bytes.dropLast(7), as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 101 ") && text.hasSuffix("\r\n\r\n") && text.contains("X-More: 1\r\n"))
        #expect(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
        #expect(bytes.suffix(7) == [0x81, 5] + Array("Hello".utf8) && end == .inOrder)
        #expect(messages.elements == [Array("Hello".utf8)])
    }

    @Test func aDetachedStreamIsItsNewOwners() async throws {
        let rest = Watched<[UInt8]?>(nil)
        let server = try Server { connection, event in
            guard case .head = event else { return }
            let bytes = connection.detach()
            rest.change { $0 = bytes }
        }
        server.peer.send(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\nmore".utf8))
        #expect(rest.wait { $0 != nil })
        #expect(rest.value == Array("more".utf8))
        server.onThread { $0.stream.write([1]) }
        #expect(server.peer.receive(1) == [1])
        server.onThread { $0.stream.close() }
    }
}
