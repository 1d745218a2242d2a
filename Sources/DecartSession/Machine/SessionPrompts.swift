// The application's requests on up to two channels: that of the current attempt, and that of a candidate, which starts
// with all requests that are not acknowledged yet and gets each further one. A candidate's results are held until it
// takes over, because the current attempt may report them first.

struct SessionPrompts: Sendable {
    var current: PromptTracker
    private var candidate: PromptTracker?
    private var held: [RequestID: PromptResult] = [:]

    init(configuration: SessionConfiguration) {
        current = PromptTracker(configuration: configuration)
    }

    subscript(role: Attempt.Role) -> PromptTracker {
        get { role == .candidate ? candidate ?? current : current }
        set { if role == .candidate { candidate = newValue } else { current = newValue } }
    }

    mutating func beginCandidate() {
        candidate = current
        candidate?.scheduledDeadline = nil
    }

    mutating func endCandidate() { (candidate, held) = (nil, [:]) }

    mutating func hold(_ results: [PromptResult]) {
        for result in results { held[result.id] = result }
    }

    mutating func add(_ update: PromptUpdate, id: RequestID, now: Duration) -> [PromptResult] {
        if let results = candidate?.add(update, id: id, now: now) { hold(results) }
        return current.add(update, id: id, now: now)
    }

    /// - Returns: what keeps the timer at the earliest deadline.
    mutating func planTimeout(_ role: Attempt.Role, _ timer: TimerID, isLive: Bool, now: Duration) -> SessionAction? {
        guard role != .candidate || candidate != nil else { return nil }
        let deadline = isLive ? self[role].nextDeadline : nil
        guard deadline != self[role].scheduledDeadline else { return nil }
        self[role].scheduledDeadline = deadline
        return deadline.map { .schedule(timer, after: max($0 - now, .zero)) } ?? .cancel(timer)
    }

    /// Continues on the candidate's channel.
    /// - Returns: its results for requests that the application has no result of.
    mutating func takeOver() -> [PromptResult] {
        guard var next = candidate else { return [] }
        let open = current.openRequests
        let results = open.sorted().compactMap { held[$0] }
        next.markReported(allBut: open.subtracting(results.map(\.id)))
        next.scheduledDeadline = nil
        current = next
        endCandidate()
        return results
    }
}
