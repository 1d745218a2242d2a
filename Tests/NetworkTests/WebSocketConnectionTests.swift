import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

/// An open WebSocket over a stream, against a plain socket.
@Suite(.timeLimit(.minutes(1)))
struct WebSocketConnectionTests {
    private enum Seen: Sendable, Equatable {
        case message(WebSocketEvent)
        case writable
        case ended(NetworkError?)

        init(_ event: WebSocketConnection.Event) {
            self =
                switch event {
                case .message(let message): .message(message)
                case .writable: .writable
                case .ended(let error): .ended(error)
                }
        }
    }

    private final class Client: Sendable {
        let seen = EventLog<Seen>()
        let peer: PlainPeer
        private let socket: WebSocketConnection

        /// - Parameter pausing: the number of the event with which the owner pauses reading.
        init(rest: [UInt8] = [], pausing: Int = 0) throws {
            let pair = try StreamPair(isStarted: false)
            peer = pair.peer
            let seen = seen
            socket = pair.onThread { stream in
                let socket = WebSocketConnection(
                    stream, as: .client, limits: WebSocketLimits(messageSize: 1000, fragments: 4), rest: rest)
                socket.onEvent = { [unowned socket] event in
                    seen.append(Seen(event))
                    if seen.elements.count == pausing { socket.setReading(false) }
                }
                stream.start()
                socket.start()
                return socket
            }
        }

        func onThread(_ body: @escaping @Sendable (WebSocketConnection) -> Void) {
            NetworkThread.test.sync { [socket] in body(socket) }
        }
    }

    /// A server's text.
    private static func text(_ text: String) -> [UInt8] { [0x81, UInt8(text.utf8.count)] + text.utf8 }
    private static func seen(_ text: String) -> Seen { .message(.text(Array(text.utf8))) }

    @Test func whatCameWithTheUpgradeComesFirst() async throws {
        let client = try Client(rest: Self.text("one") + Self.text("two").prefix(3))
        client.peer.send(Self.text("two").dropFirst(3) + Self.text("three") + [0x89, 0])
        #expect(await client.seen.reaches(count: 4))
        #expect(client.seen.elements == [Self.seen("one"), Self.seen("two"), Self.seen("three"), .message(.ping([]))])
        client.onThread { $0.close() }
    }

    @Test func aClientMasks() async throws {
        let client = try Client()
        let sent = EventLog<Bool>()
        client.onThread {
            $0.send(.binary, [1, 2, 3]) { sent.append(true) }
            $0.sendClose(code: 1000)
            $0.finish(within: .seconds(40))
        }
        let (bytes, end) = client.peer.receiveAll()
        #expect(bytes.count == 9 + 8 && end == .inOrder && sent.elements == [true])
        #expect(bytes[0] == 0x82 && bytes[1] == 0x83)
        let unmasked: [UInt8] = zip(bytes[6..<9], bytes[2..<5]).map { $0 ^ $1 }
        #expect(unmasked == [1, 2, 3])
        #expect(client.seen.elements.isEmpty)
    }

    @Test func aPauseKeepsMessages() async throws {
        let client = try Client(pausing: 1)
        client.peer.send(Self.text("one") + Self.text("two"))
        #expect(await client.seen.reaches(count: 1))
        for _ in 0..<3 { client.onThread { _ in } }
        #expect(client.seen.elements == [Self.seen("one")])
        client.onThread { $0.setReading(true) }
        #expect(await client.seen.reaches(count: 2))
        client.onThread { $0.close() }
    }

    /// Messages and a close frame that came before the end are not lost to it.
    @Test func anEndComesAfterTheMessagesOfAPause() async throws {
        let client = try Client(pausing: 1)
        client.peer.send(Self.text("one") + Self.text("two") + [0x88, 2, 3, 0xe8])
        #expect(await client.seen.reaches(count: 1))
        client.peer.finish()
        for _ in 0..<3 { client.onThread { _ in } }
        #expect(client.seen.elements.count == 1)
        client.onThread { $0.setReading(true) }
        #expect(await client.seen.reaches(count: 4))
        #expect(
            client.seen.elements
                == [Self.seen("one"), Self.seen("two"), .message(.close(code: 1000, reason: "")), .ended(nil)])
    }

    @Test func aResetEndsAPausedConnection() async throws {
        let client = try Client(pausing: 1)
        client.peer.send(Self.text("one"))
        #expect(await client.seen.reaches(count: 1))
        client.peer.reset()
        #expect(await client.seen.reaches(count: 2))
        #expect(client.seen.elements.last == .ended(.system(ECONNRESET)))
    }

    @Test func aViolationIsAMessage() async throws {
        let client = try Client()
        client.peer.send([0x83, 0] + Self.text("ignored"))
        #expect(await client.seen.reaches(count: 1))
        guard case .message(.violation(1002, _))? = client.seen.elements.first else {
            Issue.record("no violation: \(client.seen.elements)")
            return
        }
        client.peer.finish()
        #expect(await client.seen.reaches(count: 2))
        #expect(client.seen.elements.last == .ended(nil))
    }
}
