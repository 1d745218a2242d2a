// Which prompts were asked for, which the service has acknowledged, and what to say on a new channel so that none is
// lost and none is answered twice. Knows no channel, clock or timer: it is told what happened and when.
import DecartProtocol

/// Names one request of the application.
package typealias RequestID = UInt64

/// What became of a request; reported exactly once for each.
package struct PromptResult: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case accepted
        /// The service's words.
        case rejected(String)
        case timedOut
        /// A newer request took its place before it was sent.
        case superseded
        /// There is no session, or it ended.
        case cancelled
    }

    package let id: RequestID
    package let text: String
    package let outcome: Outcome
    /// From the request to its result.
    package let elapsed: Duration

    package init(id: RequestID, text: String, outcome: Outcome, elapsed: Duration) {
        self.id = id
        self.text = text
        self.outcome = outcome
        self.elapsed = elapsed
    }

    package var isAccepted: Bool { outcome == .accepted }

    /// nil when accepted.
    package var error: String? {
        switch outcome {
        case .accepted: nil
        case .rejected(let words): words
        case .timedOut: "The service did not acknowledge it in time."
        case .superseded: "A newer update took its place."
        case .cancelled: "There is no session."
        }
    }
}

struct PromptLedger: Sendable, Equatable {
    /// Requests that wait for a channel or for their turn; beyond, the oldest one not sent yet gives way.
    static let capacity = 256
    /// Text prompts under way at once.
    static let window = 32
    private static let expiredCapacity = 16

    private struct Entry: Sendable, Equatable {
        /// nil: the session's own replay, which nobody asked for.
        var id: RequestID?
        /// Order of requests; a later one wins whatever the order of acks.
        var serial: UInt64
        var update: PromptUpdate
        var requestedAt: Duration
        /// Sent before any frame of this channel.
        var isInitial = false
        var flight: Flight?
    }

    private struct Flight: Sendable, Equatable {
        /// nil: acknowledged as an image; else by this text.
        var text: String?
        /// nil: the clock stands still.
        var deadline: Duration?
    }

    /// How the initial state of a channel went.
    enum Initial: Equatable {
        case pending
        case accepted
        case refused(String)
    }

    /// What the service has accepted, or what the application began with.
    private(set) var accepted: SessionContent
    private var promptSerial: UInt64 = 0
    private var imageSerial: UInt64 = 0
    private var nextSerial: UInt64 = 1

    private var entries: [Entry] = []
    private var expired: [Entry] = []

    private var hasAcceptance = false
    private var triedReplay = false
    private var refusal: String?

    private let promptTimeout: Duration
    private let imageTimeout: Duration

    init(configuration: SessionConfiguration) {
        accepted = configuration.initial
        promptTimeout = configuration.promptAckTimeout
        imageTimeout = configuration.imageAckTimeout
    }

    var isEmpty: Bool { entries.isEmpty }

    /// What is shown when everything under way is accepted.
    var wanted: SessionContent { entries.reduce(accepted) { $0.applying($1.update) } }

    // MARK: Requests

    /// Takes a request; gives the results of those that it pushes out.
    mutating func add(_ update: PromptUpdate, id: RequestID, now: Duration) -> [PromptResult] {
        var results: [PromptResult] = []
        // Images are large and slow: of those that wait, only the newest counts.
        if update.image != .unchanged,
            let index = entries.lastIndex(where: { $0.flight == nil && $0.id != nil && $0.update.image != .unchanged })
        {
            let superseded = entries.remove(at: index)
            var inherits = update.prompt == nil
            if entries.indices.contains(index) {
                if entries[index].update.prompt == nil { entries[index].update.prompt = superseded.update.prompt }
                inherits = false
            }
            results += result(superseded, .superseded, now)
            append(
                PromptUpdate(prompt: inherits ? superseded.update.prompt : update.prompt, image: update.image),
                id: id, now: now)
        } else {
            append(update, id: id, now: now)
        }
        if entries.count > PromptLedger.capacity, let oldest = entries.firstIndex(where: { $0.flight == nil }) {
            results += result(entries.remove(at: oldest), .superseded, now)
        }
        return results
    }

    /// For a session that is not running: remembered for the next start, and answered at once.
    mutating func remember(_ update: PromptUpdate, id: RequestID) -> PromptResult {
        accepted = accepted.applying(update)
        return PromptResult(id: id, text: update.prompt?.text ?? accepted.text, outcome: .cancelled, elapsed: .zero)
    }

    private mutating func append(_ update: PromptUpdate, id: RequestID?, now: Duration) {
        entries.append(Entry(id: id, serial: nextSerial, update: update, requestedAt: now))
        nextSerial &+= 1
    }

    // MARK: Channels

    /// A new channel, to a service that knows nothing: everything unacknowledged is said again, in order, before the
    /// first frame; if there is nothing, the accepted state.
    mutating func beginChannel(now: Duration) {
        entries.removeAll { $0.id == nil }
        expired = []
        hasAcceptance = false
        triedReplay = entries.isEmpty
        refusal = nil
        if entries.isEmpty { append(PromptUpdate(), id: nil, now: now) }
        for index in entries.indices {
            entries[index].flight = nil
            entries[index].isInitial = true
        }
    }

    /// The messages that may go out now.
    mutating func takeMessages(now: Duration) -> [ClientMessage] {
        var messages: [ClientMessage] = []
        var under = accepted
        var isFresh = !hasAcceptance && !entries.contains { $0.flight != nil }
        for index in entries.indices {
            defer { under = under.applying(entries[index].update) }
            if entries[index].flight != nil { continue }
            let update = entries[index].update
            let message = isFresh ? under.applying(update).message : update.message(after: under)
            guard let flight = flight(for: message, isInitial: entries[index].isInitial, now: now) else { break }
            entries[index].flight = flight
            isFresh = false
            messages.append(message)
        }
        return messages
    }

    /// nil: not yet.
    private func flight(for message: ClientMessage, isInitial: Bool, now: Duration) -> Flight? {
        let flights = entries.compactMap(\.flight)
        // The initial state has a clock of its own.
        if case .prompt(let prompt) = message {
            guard flights.count < PromptLedger.window else { return nil }
            return Flight(text: prompt.text, deadline: isInitial ? nil : now + promptTimeout)
        }
        // One image at a time: its ack does not say which one it answers.
        guard !flights.contains(where: { $0.text == nil }) else { return nil }
        return Flight(text: nil, deadline: isInitial ? nil : now + imageTimeout)
    }

    /// The service queues us: what was sent may be lost, and no clock runs. It is sent again after the queue.
    mutating func recall() {
        for index in entries.indices { entries[index].flight?.deadline = nil }
    }

    mutating func resendAfterQueue() {
        for index in entries.indices { entries[index].flight = nil }
    }

    // MARK: Answers

    mutating func acknowledge(_ ack: PromptAck, now: Duration) -> [PromptResult] {
        resolve(success: ack.success, error: ack.error, now: now) { flight in
            guard let text = flight.text else { return false }
            return ack.prompt == nil || ack.prompt == text
        }
    }

    mutating func acknowledge(_ ack: SetImageAck, now: Duration) -> [PromptResult] {
        resolve(success: ack.success, error: ack.error, now: now) { $0.text == nil }
    }

    /// An ack answers the oldest request under way that it fits. One that fits none is a duplicate, or belongs to an
    /// older request or channel: it may tell what the service shows, but is nobody's result.
    private mutating func resolve(
        success: Bool, error: String?, now: Duration, fits: (Flight) -> Bool
    ) -> [PromptResult] {
        guard let index = entries.firstIndex(where: { $0.flight.map(fits) ?? false }) else {
            if let late = expired.firstIndex(where: { $0.flight.map(fits) ?? false }) {
                let entry = expired.remove(at: late)
                if success { accept(entry) }
            }
            return []
        }
        let entry = entries.remove(at: index)
        guard success else {
            let words = (error ?? "refused without a reason").printable(limit: 500)
            if entry.isInitial { refusal = words }
            return result(entry, .rejected(words), now)
        }
        accept(entry)
        hasAcceptance = true
        return result(entry, .accepted, now)
    }

    private mutating func accept(_ entry: Entry) {
        if entry.update.prompt != nil, entry.serial > promptSerial {
            accepted.prompt = entry.update.prompt
            promptSerial = entry.serial
        }
        if entry.update.image != .unchanged, entry.serial > imageSerial {
            accepted = accepted.applying(PromptUpdate(image: entry.update.image))
            imageSerial = entry.serial
        }
    }

    /// `error` from the service: everything under way has failed.
    mutating func failFlights(_ words: String, now: Duration) -> [PromptResult] {
        let failed = entries.filter { $0.flight != nil }
        entries.removeAll { $0.flight != nil }
        if failed.contains(where: \.isInitial) { refusal = words }
        return failed.flatMap { result($0, .rejected(words), now) }
    }

    /// The session ends.
    mutating func cancelAll(now: Duration) -> [PromptResult] {
        let cancelled = entries
        entries = []
        // What was asked for still counts when the session is started again.
        for entry in cancelled where entry.id != nil { accepted = accepted.applying(entry.update) }
        return cancelled.flatMap { result($0, .cancelled, now) }
    }

    /// How the initial state stands. If every newer wish was refused, what was accepted before is tried once more.
    mutating func initialState(now: Duration) -> Initial {
        if entries.contains(where: \.isInitial) { return .pending }
        if hasAcceptance { return .accepted }
        if !triedReplay {
            triedReplay = true
            append(PromptUpdate(), id: nil, now: now)
            entries[entries.count - 1].isInitial = true
            return .pending
        }
        return .refused(refusal ?? "refused without a reason")
    }

    // MARK: Time

    /// When the next request under way runs out of time.
    var nextDeadline: Duration? { entries.compactMap { $0.flight?.deadline }.min() }

    mutating func expire(now: Duration) -> [PromptResult] {
        func isDue(_ entry: Entry) -> Bool { entry.flight?.deadline.map { $0 <= now } ?? false }
        let due = entries.filter(isDue)
        entries.removeAll(where: isDue)
        expired = (expired + due).suffix(PromptLedger.expiredCapacity)
        return due.flatMap { result($0, .timedOut, now) }
    }

    private func result(_ entry: Entry, _ outcome: PromptResult.Outcome, _ now: Duration) -> [PromptResult] {
        guard let id = entry.id else { return [] }
        return [
            PromptResult(
                id: id, text: entry.update.prompt?.text ?? accepted.text, outcome: outcome,
                elapsed: max(now - entry.requestedAt, .zero))
        ]
    }
}
