// One channel of a recording as a value: it decides which message of the service is due. It knows no socket, clock or
// media; `ConnectionHandler+Replay.swift` drives it. Times are seconds since the channel was opened.
package import DecartProtocol

package struct ReplayScript: Sendable {
    package enum Step: Sendable, Equatable {
        case send(ServerMessage)
        /// Text that is no message.
        case sendMalformed
        /// Media stop and come back, as the messages of the recording say.
        case pauseMedia(reason: String)
        case restartMedia
        case close(code: UInt16, reason: String)
        /// Ends the connection without a close frame.
        case drop
    }

    /// Seconds to wait for a client message that precedes an event in the recording, beyond its time, and for content
    /// that media have to make.
    package static let grace = 5.0

    /// The event from which the time of a later one counts: a client message, such as the second prompt, or the start of a
    /// generation, which waits for the first frame.
    private struct Anchor: Hashable {
        var type: String
        var number: Int
    }

    private struct Item {
        var time: Double
        var anchor: Anchor?
        /// Since the anchor.
        var delay: Double
        var event: ControlRecording.Event
    }

    private let items: [Item]
    private var next = 0
    private var sentCounts: [String: Int] = [:]
    private var arrivals: [Anchor: Double] = [:]
    private var prompts: [String] = []
    private var framesHaveArrived = false
    /// Messages of this session, by type, that wait for their place in the recording.
    private var made: [ControlRecording.Message.Kind: [ServerMessage]] = [:]
    private let identity: SessionIdentity

    /// - Parameter entries: the entries of one attempt.
    package init(_ entries: [ControlRecording.Entry], identity: SessionIdentity) {
        self.identity = identity
        let begun = entries.first { $0.event == .opened }?.time ?? entries.first?.time ?? 0
        var items: [Item] = []
        var counts: [String: Int] = [:]
        var anchor: (Anchor, time: Double)?
        for entry in entries {
            let time = Double(max(entry.time - begun, 0)) / 1000
            func setAnchor(_ type: String) {
                counts[type, default: 0] += 1
                anchor = (Anchor(type: type, number: counts[type, default: 0]), time)
            }
            switch entry.event {
            case .opened, .left: break
            case .sent(let type): if Self.isAnchor(type) { setAnchor(type) }
            // The answer has all candidates, and a TURN server's password is in no recording.
            case .received(.made(.candidate)), .received(.made(.turnConfig)): break
            case .received, .closed, .failed:
                items.append(
                    Item(time: time, anchor: anchor?.0, delay: max(time - (anchor?.time ?? 0), 0), event: entry.event))
                if entry.event == .received(.plain(.generationStarted)) { setAnchor(Self.generation) }
            }
        }
        self.items = items
    }

    private static let generation = ServerMessage.generationStarted.type

    /// The number of candidates is another one each time.
    private static func isAnchor(_ type: String) -> Bool { type != "ice-candidate" }

    /// Answers one client message, and makes no sense without it.
    private static func isAnswer(_ event: ControlRecording.Event) -> Bool {
        switch event {
        case .received(.made(let kind)): kind == .answer || kind == .roomInfo
        case .received(.plain(.promptAck)), .received(.plain(.setImageAck)): true
        default: false
        }
    }

    // MARK: Events

    package mutating func received(_ message: ClientMessage, at now: Double) {
        guard Self.isAnchor(message.type) else { return }
        noteArrival(message.type, at: now)
        prompts += message.promptTexts
    }

    private mutating func noteArrival(_ type: String, at now: Double) {
        sentCounts[type, default: 0] += 1
        arrivals[Anchor(type: type, number: sentCounts[type, default: 0])] = now
    }

    /// Stores a message that a normal session would send now: the recording decides when it is sent.
    package mutating func store(_ message: ServerMessage) {
        if message == .generationStarted { framesHaveArrived = true }
        guard let kind = ControlRecording.Message.Kind(rawValue: message.type), kind != .sessionID else { return }
        made[kind, default: []].append(message)
    }

    /// The steps that are due, and the time of the next one; nil if only an event can change that.
    package mutating func due(at now: Double) -> (steps: [Step], next: Double?) {
        var steps: [Step] = []
        while next < items.count {
            let item = items[next]
            let arrival = item.anchor.map { arrivals[$0] } ?? 0
            let time = arrival.map { $0 + item.delay } ?? item.time + Self.grace
            if time > now { return (steps, time) }
            if arrival != nil || !Self.isAnswer(item.event) {
                let isLate = now >= time + Self.grace
                if let found = made(for: item.event, at: now, isLate: isLate) {
                    steps += found
                } else if !isLate {
                    // Media are still at it.
                    return (steps, time + Self.grace)
                }
            }
            next += 1
        }
        return (steps, nil)
    }

    /// Nil: the content does not exist yet.
    /// - Parameter isLate: the event has waited for its content for long enough.
    private mutating func made(for event: ControlRecording.Event, at now: Double, isLate: Bool) -> [Step]? {
        switch event {
        case .received(.plain(.generationStarted)):
            guard framesHaveArrived || isLate else { return nil }
            noteArrival(Self.generation, at: now)
            return [.restartMedia, .send(.generationStarted)]
        case .received(.plain(let message)): return steps(message)
        case .received(.malformed): return [.sendMalformed]
        case .received(.made(.sessionID)): return [.send(.sessionID(identity))]
        case .received(.made(let kind)):
            guard let message = made[kind]?.first else { return nil }
            // A repeated room info names the same room.
            if kind != .roomInfo { made[kind]?.removeFirst() }
            return [.send(message)]
        case .closed(let code, let reason):
            guard let code = code.flatMap({ UInt16(exactly: $0) }) else { return [.drop] }
            return [.close(code: code, reason: reason)]
        case .failed: return [.drop]
        case .opened, .sent, .left: return []
        }
    }

    private func steps(_ message: ServerMessage) -> [Step] {
        switch message {
        case .promptAck(var ack):
            if let number = ack.prompt.flatMap(PromptName.number) {
                // An acknowledgement of a prompt that this client has not sent.
                ack.prompt = prompts.indices.contains(number - 1) ? prompts[number - 1] : PromptName.other
            }
            return [.send(.promptAck(ack))]
        case .generationEnded(_, let reason): return [.pauseMedia(reason: reason ?? ""), .send(message)]
        default: return [.send(message)]
        }
    }
}
