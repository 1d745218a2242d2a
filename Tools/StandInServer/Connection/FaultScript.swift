// The faults of one session's control channel as a value: takes the machine's actions and returns the steps to
// perform instead. It knows no socket, clock or media; `ConnectionHandler` performs the steps.
import DecartProtocol

struct FaultScript {
    indirect enum Step: Sendable, Equatable {
        case action(ControlStateMachine.Action)
        case later(seconds: Double, [Step])
        case every(seconds: Double, [Step])
        /// Bytes that bypass the frame encoder.
        case raw([UInt8])
        case rawRepeated([UInt8])
        case pings(count: Int)
        case close(code: UInt16, reason: String)
        case reset
        /// Applies a prompt that the client has not sent.
        case prompt(String)
        case mute
        case ignorePings
        case endGeneration(reason: String)
        /// Ends the generation; the session and its connections stay.
        case pauseGeneration(reason: String, Fault.Output)
        case restartGeneration(Fault.Output)
    }

    private(set) var plan: FaultPlan
    private var ackCount = 0

    init(_ plan: FaultPlan) {
        self.plan = plan
    }

    /// Adds faults to a running session. A fault without `at` acts at once.
    mutating func add(_ faults: [Fault]) -> [Step] {
        plan = FaultPlan(faults) + plan
        return faults.compactMap { fault in
            var fault = fault
            fault.at = fault.at ?? 0
            return fault.timedStep
        }
    }

    // MARK: Greeting

    func opened(_ greeting: [ControlStateMachine.Action]) -> [Step] {
        if let end = closes(.join).first { return [end] }
        return self.greeting(greeting.map(Step.action)) + plan.faults.compactMap(\.timedStep)
    }

    private func greeting(_ honest: [Step]) -> [Step] {
        if plan.contains(.noFirstMessage) { return [] }
        guard let (places, interval, isEndless) = queue else { return honest }
        let entering = Step.action(.send(.status("entering queue")))
        let positions = places.map { Step.action(.send(.queuePosition($0))) }
        if isEndless { return [entering] + positions + [.every(seconds: max(interval, 0.01), positions)] }
        return [entering] + positions.enumerated().map { .later(seconds: Double($0) * interval, [$1]) }
            + [.later(seconds: Double(places.count) * interval, honest)]
    }

    /// The places of a simulated queue, one every `interval` seconds.
    private var queue: (places: [QueuePosition], interval: Double, isEndless: Bool)? {
        plan.first { fault in
            guard case .queue(let kind) = fault.kind else { return nil }
            let interval = fault.interval ?? 1
            switch kind {
            case .forever:
                let n = fault.n ?? 12
                return ([QueuePosition(position: n, size: n)], interval, true)
            case .n:
                let n = min(fault.n ?? 3, 1000)
                return ((0..<n).map { QueuePosition(position: n - $0, size: n) }, interval, false)
            case .jump:
                let n = min(fault.n ?? 3, 1_000_000)
                // Moves backward and forward, without a size, beyond the size, and to position 0.
                let places: [(Int, Int?)] = [(n, n), (n * 4, n * 4), (1, n), (n * 2, nil), (n * 9, n), (0, n), (2, n)]
                return (places.map(QueuePosition.init), interval, false)
            }
        }
    }

    // MARK: Orders

    mutating func applyFaults(_ actions: [ControlStateMachine.Action]) -> [Step] {
        plan.faults.isEmpty ? actions.map(Step.action) : actions.flatMap { applyFaults($0) }
    }

    private mutating func applyFaults(_ action: ControlStateMachine.Action) -> [Step] {
        switch action {
        case .send(.promptAck), .send(.setImageAck): return acknowledged(action)
        case .send(.answer(let sdp)):
            return [.action(.send(.answer(sdp: DescriptionFault.applyFaults(answer: sdp, plan))))]
        case .startMedia(let offer):
            return [.action(.startMedia(offer: DescriptionFault.applyFaults(offer: offer, plan)))]
        case .send(.iceCandidate(let candidate)): return CandidateFault.applyFaults(sent: candidate, plan)
        case .media(.addCandidate): return CandidateFault.applyFaults(received: action, plan)
        case .send(.livekitRoomInfo): return roomInfo(action)
        case .send(.generationStarted): return [.action(action)] + closes(.connected)
        default: return [.action(action)]
        }
    }

    /// Delays the room info to the end of a simulated queue.
    private func roomInfo(_ action: ControlStateMachine.Action) -> [Step] {
        if plan.contains(.noFirstMessage) || plan.contains(.queue(.forever)) { return [] }
        if let fault = plan.first(.room(.slowInfo)) { return [.later(seconds: fault.delay ?? 20, [.action(action)])] }
        guard let queue else { return [.action(action)] }
        return [.later(seconds: Double(queue.places.count) * queue.interval, [.action(action)])]
    }

    private func closes(_ moment: FaultKind.Moment) -> [Step] {
        plan.faults.compactMap { fault in
            guard case .close(let code, moment) = fault.kind else { return nil }
            return .close(code: code.rawValue, reason: fault.reason ?? "")
        }
    }

    private mutating func acknowledged(_ action: ControlStateMachine.Action) -> [Step] {
        ackCount += 1
        let fault = plan.first { fault -> (FaultKind.Ack, Fault)? in
            if case .ack(let kind) = fault.kind { (kind, fault) } else { nil }
        }
        guard let (kind, fault) = fault, ackCount > fault.skip ?? 0 else { return [.action(action)] }
        switch kind {
        case .none: return []
        case .late: return [.later(seconds: fault.delay ?? 20, [.action(action)])]
        case .twice: return [.action(action), .action(action)]
        case .wrong:
            let other = PromptAck(prompt: "a prompt that nobody sent", success: true)
            return [.action(.send(.promptAck(other)))]
        // `ControlStateMachine.Rules.acceptedCount` makes the machine itself refuse, so that the look does not change.
        case .fail: return [.action(action)]
        }
    }
}

extension FaultPlan {
    /// Number of prompts and images to accept before refusing; nil: no limit.
    var acceptedCount: Int? { first(.ack(.fail)).map { $0.skip ?? 0 } }
}

extension Fault {
    /// The step that the fault performs at a set time, independent of any message.
    fileprivate var timedStep: FaultScript.Step? {
        guard let (seconds, steps) = timed else { return nil }
        return .later(seconds: at ?? seconds, steps)
    }

    private var timed: (seconds: Double, [FaultScript.Step])? {
        switch kind {
        case .error(let text): (0, [.action(.send(.error(text)))])
        case .errorOfType: (0, typedError)
        case .close(let code, .time): (5, [.close(code: code.rawValue, reason: reason ?? "")])
        case .dropTCP: (5, [.reset])
        case .noPong: (0, [.ignorePings])
        case .mute: (5, [.mute])
        case .pingFlood: (0, [.pings(count: n ?? 50_000)])
        case .badJSON(let kind): (0, HostileFrames.json(kind).map { .raw($0) })
        case .ws(let kind): (0, HostileFrames.steps(kind, n: n))
        case .sessionLimit: (10, [.endGeneration(reason: "timeout"), .close(code: 1000, reason: "session limit")])
        case .generationEnded: (5, [.pauseGeneration(reason: reason ?? "insufficient_credits", .same)])
        case .generationRestart: (5, restart(output ?? .same))
        default: nil
        }
    }

    private var typedError: [FaultScript.Step] {
        let text = reason ?? "a fault of this stand-in"
        let error = ServerMessage.error(text, type: type ?? "internal_error", retryAfter: delay)
        let close = FaultScript.Step.close(code: FaultKind.CloseCode.tryAgainLater.rawValue, reason: "")
        return [.action(.send(error))] + (type == "capacity" ? [close] : [])
    }

    private func restart(_ output: Output) -> [FaultScript.Step] {
        let restart = FaultScript.Step.later(seconds: delay ?? 5, [.restartGeneration(output)])
        return [.pauseGeneration(reason: reason ?? "timeout", output), restart]
    }
}
