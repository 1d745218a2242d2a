import DecartProtocol
import Glibc
import StandInServer
import TestSupport
import Testing

/// A WebSocket client without checks: it sends any frame and keeps every event. Calls block, each with a timeout.
final class TestClient: Sendable {
    enum Event: Sendable, Equatable {
        case message(ServerMessage)
        case unreadable([UInt8])
        case binary([UInt8])
        case pong([UInt8])
        case closeFrame(code: UInt16?)
        case closed
    }

    struct Refused: Error, Equatable {
        let status: UInt
    }

    /// `received` shows how far the exchange came.
    struct TimedOut: Error {
        var received: [String] = []
    }

    struct Opcode: Sendable {
        var value: UInt8

        static let continuation = Opcode(value: 0)
        static let text = Opcode(value: 1)
        static let binary = Opcode(value: 2)
        static let close = Opcode(value: 8)
        static let ping = Opcode(value: 9)
    }

    private let inbox = Watched(Inbox())
    private let socket: RawSocket

    /// - Parameter trust: a PEM certificate; nil connects without TLS.
    init(port: Int, host: String = "127.0.0.1", target: String, trust: String? = nil) throws {
        socket = try RawSocket.webSocket(port: port, host: host, target: target, trust: trust)
        detachThread { [socket, inbox] in
            while let frame = socket.nextFrame() {
                if let event = Self.event(frame) { inbox.change { $0.put(event) } }
            }
            inbox.change { $0.put(.closed) }
        }
    }

    private static func event(_ frame: RawSocket.Frame) -> Event? {
        switch frame.first & 0x0F {
        case 1: (try? ServerMessage(decoding: frame.payload)).map { .message($0) } ?? .unreadable(frame.payload)
        case 2: .binary(frame.payload)
        case 8 where frame.payload.count < 2: .closeFrame(code: nil)
        case 8: .closeFrame(code: UInt16(frame.payload[0]) << 8 | UInt16(frame.payload[1]))
        case 10: .pong(frame.payload)
        default: nil
        }
    }

    func send(_ message: ClientMessage) throws {
        sendText(try message.encoded())
    }

    func sendText(_ bytes: some Sequence<UInt8>) {
        send(.text, Array(bytes))
    }

    func send(
        _ opcode: Opcode, _ payload: [UInt8], fin: Bool = true, rsv1: Bool = false, isMasked: Bool = true
    ) {
        var bytes = [(fin ? 0x80 : 0) | (rsv1 ? 0x40 : 0) | opcode.value]
        let mask: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ..<126: bytes.append(mask | UInt8(payload.count))
        case ..<65536: bytes += [mask | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        default: bytes += [mask | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        let key: [UInt8] = [1, 2, 3, 4]
        socket.send(bytes + (isMasked ? key + payload.enumerated().map { $1 ^ key[$0 % 4] } : payload))
    }

    func ping(_ bytes: [UInt8]) {
        send(.ping, bytes)
    }

    /// Returns the next event in order, of any kind.
    func next(milliseconds: Int = 20_000) throws -> Event {
        _ = inbox.wait(.milliseconds(milliseconds)) { !$0.events.isEmpty }
        var event: Event?
        inbox.change { if !$0.events.isEmpty { event = $0.events.removeFirst() } }
        guard let event else { throw TimedOut(received: inbox.value.history) }
        return event
    }

    /// Skips events until one matches.
    func next(where fits: (Event) -> Bool) throws -> Event {
        while true {
            let event = try next()
            if fits(event) { return event }
        }
    }

    /// Sends a prompt and expects its acknowledgement as the next event.
    func expectAccepted(_ prompt: String = "lego", sourceLocation: SourceLocation = #_sourceLocation) throws {
        try send(.prompt(PromptMessage(text: prompt, enhance: false)))
        let ack = PromptAck(prompt: prompt, success: true)
        #expect(try next() == .message(.promptAck(ack)), sourceLocation: sourceLocation)
    }

    func awaitAnswer() throws { _ = try next { if case .message(.answer) = $0 { true } else { false } } }

    func expectGreeting() throws -> SessionIdentity {
        guard case .message(.status("ready")) = try next(), case .message(.sessionID(let identity)) = try next() else {
            throw TimedOut()
        }
        return identity
    }

    func close() {
        socket.close()
    }
}

/// The events that the test has not taken yet.
private struct Inbox: Sendable {
    var events: [TestClient.Event] = []
    /// Kinds of all messages so far.
    var history: [String] = []

    mutating func put(_ event: TestClient.Event) {
        if case .message(let message) = event { history.append(message.type) } else { history.append("\(event)") }
        events.append(event)
    }
}
