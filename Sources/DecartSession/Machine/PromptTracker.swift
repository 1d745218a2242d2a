// Tracks which prompts were requested and which the service has acknowledged, and what to send on a new channel so that
// no request is lost and none gets two results. Knows no channel, clock or timer: the caller passes in each event and
// the time.
import DecartProtocol

/// Identifies one request of the application.
package typealias RequestID = UInt64

/// The result of a request; reported exactly once for each.
package struct PromptResult: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case accepted
        /// The service's error text.
        case rejected(String)
        case timedOut
        /// A newer request replaced it before it was sent.
        case superseded
        /// There is no session, or it ended: the next one starts with the request.
        case stored
    }

    package let id: RequestID
    package let text: String
    package let outcome: Outcome
    /// Time from the request to its result.
    package let elapsed: Duration

    package init(id: RequestID, text: String, outcome: Outcome, elapsed: Duration) {
        self.id = id
        self.text = text
        self.outcome = outcome
        self.elapsed = elapsed
    }

    package var isAccepted: Bool { error == nil }

    package var error: String? {
        switch outcome {
        case .accepted, .stored: nil
        case .rejected(let reason): reason
        case .timedOut: "The service did not acknowledge the request in time."
        case .superseded: "A newer request replaced it before it was sent."
        }
    }
}

struct PromptTracker: Sendable, Equatable {
    /// Maximum number of requests; a further one supersedes the oldest that is not sent yet.
    static let capacity = 256
    /// Maximum number of text prompts in flight.
    static let window = 32
    private static let expiredCapacity = 16

    private struct Entry: Sendable, Equatable {
        /// nil: the session's own replay, which no request caused.
        var id: RequestID?
        /// Order of the requests; the later one wins, whatever the order of the acks.
        var serial: UInt64
        var update: PromptUpdate
        var requestedAt: Duration
        /// True if the request belongs to the initial state of the channel.
        var isInitial = false
        /// The application has the result already, from the session that this one replaces.
        var isReported = false
        var inFlight: InFlight?
    }

    private struct InFlight: Sendable, Equatable {
        /// Text that its `prompt_ack` repeats; nil: acknowledged by `set_image_ack`.
        var text: String?
        /// nil: no timeout runs.
        var deadline: Duration?
    }

    /// Outcome of a channel's initial state.
    enum Initial: Equatable {
        case pending
        case accepted
        case refused(String)
    }

    /// Content that the service has accepted, or the application's initial content.
    private(set) var accepted: SessionContent
    private var promptSerial: UInt64 = 0
    private var imageSerial: UInt64 = 0
    private var nextSerial: UInt64 = 1

    private var entries: [Entry] = []
    private var expired: [Entry] = []

    private var hasAcceptance = false
    private var triedReplay = false
    private var refusal: String?

    /// The deadline for which a timer runs.
    var scheduledDeadline: Duration?

    private let promptTimeout: Duration
    private let imageTimeout: Duration

    init(configuration: SessionConfiguration) {
        accepted = configuration.initial
        promptTimeout = configuration.promptAckTimeout
        imageTimeout = configuration.imageAckTimeout
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The content once all pending requests are accepted.
    var wanted: SessionContent { entries.reduce(accepted) { $0.applying($1.update) } }

    // MARK: Requests

    /// Adds a request; returns the results of those that it supersedes.
    mutating func add(_ update: PromptUpdate, id: RequestID, now: Duration) -> [PromptResult] {
        var results: [PromptResult] = []
        // Images are large and slow, so only the newest of the unsent ones is kept.
        if update.image != .unchanged,
            let index = entries.lastIndex(where: { $0.inFlight == nil && $0.id != nil && $0.update.image != .unchanged }
            )
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
        if entries.count > PromptTracker.capacity, let oldest = entries.firstIndex(where: { $0.inFlight == nil }) {
            results += result(entries.remove(at: oldest), .superseded, now)
        }
        return results
    }

    /// Stores a request for the next start, as no session is running, and returns its result.
    mutating func remember(_ update: PromptUpdate, id: RequestID) -> PromptResult {
        accepted = accepted.applying(update)
        return PromptResult(id: id, text: update.prompt?.text ?? accepted.text, outcome: .stored, elapsed: .zero)
    }

    private mutating func append(_ update: PromptUpdate, id: RequestID?, now: Duration) {
        entries.append(Entry(id: id, serial: nextSerial, update: update, requestedAt: now))
        nextSerial &+= 1
    }

    // MARK: Channels

    /// Starts a new channel, to a service that has no state. The initial state of the channel is all unacknowledged
    /// requests, in order; the accepted content if there are none.
    mutating func beginChannel(now: Duration) {
        entries.removeAll { $0.id == nil }
        expired = []
        hasAcceptance = false
        triedReplay = entries.isEmpty
        refusal = nil
        if entries.isEmpty { append(PromptUpdate(), id: nil, now: now) }
        for index in entries.indices {
            entries[index].inFlight = nil
            entries[index].isInitial = true
        }
    }

    /// Returns the messages that may be sent now.
    mutating func nextMessages(now: Duration) -> [ClientMessage] {
        var messages: [ClientMessage] = []
        var under = accepted
        var isFresh = !hasAcceptance && !entries.contains { $0.inFlight != nil }
        for index in entries.indices {
            defer { under = under.applying(entries[index].update) }
            if entries[index].inFlight != nil { continue }
            let update = entries[index].update
            let message = isFresh ? under.applying(update).message : update.message(after: under)
            guard let flight = flight(for: message, isInitial: entries[index].isInitial, now: now) else { break }
            entries[index].inFlight = flight
            isFresh = false
            messages.append(message)
        }
        return messages
    }

    /// Returns nil if the message must wait.
    private func flight(for message: ClientMessage, isInitial: Bool, now: Duration) -> InFlight? {
        let inFlight = entries.compactMap(\.inFlight)
        // The initial state has its own timer, `initialAck`.
        if case .prompt(let prompt) = message {
            guard inFlight.count < PromptTracker.window else { return nil }
            return InFlight(text: prompt.text, deadline: isInitial ? nil : now + promptTimeout)
        }
        // Only one image is in flight, because its ack does not identify the image.
        guard !inFlight.contains(where: { $0.text == nil }) else { return nil }
        return InFlight(text: nil, deadline: isInitial ? nil : now + imageTimeout)
    }

    /// Stops all timeouts, because the service has put us in its queue. It may lose what was sent before:
    /// `resendAfterQueue` sends that again.
    mutating func pauseTimeouts() {
        for index in entries.indices { entries[index].inFlight?.deadline = nil }
    }

    mutating func resendAfterQueue() {
        for index in entries.indices { entries[index].inFlight = nil }
    }

    // MARK: Renewal

    /// Requests without a result so far.
    var openRequests: Set<RequestID> { Set(entries.compactMap { $0.isReported ? nil : $0.id }) }

    /// Reports no result for any other request.
    mutating func markReported(allBut open: Set<RequestID>) {
        for (index, entry) in entries.enumerated() where !(entry.id.map(open.contains) ?? false) {
            entries[index].isReported = true
        }
    }

    // MARK: Acknowledgements

    mutating func acknowledge(_ ack: PromptAck, now: Duration) -> [PromptResult] {
        resolve(success: ack.success, error: ack.error, now: now) { flight in
            guard let text = flight.text else { return false }
            return ack.prompt == nil || ack.prompt == text
        }
    }

    mutating func acknowledge(_ ack: SetImageAck, now: Duration) -> [PromptResult] {
        resolve(success: ack.success, error: ack.error, now: now) { $0.text == nil }
    }

    /// Completes the oldest request in flight that the ack fits. An ack that fits none is a duplicate, or belongs to an
    /// older request or channel: it may update the accepted content, but completes no request.
    private mutating func resolve(
        success: Bool, error: String?, now: Duration, fits: (InFlight) -> Bool
    ) -> [PromptResult] {
        guard let index = entries.firstIndex(where: { $0.inFlight.map(fits) ?? false }) else {
            if let late = expired.firstIndex(where: { $0.inFlight.map(fits) ?? false }) {
                let entry = expired.remove(at: late)
                if success { accept(entry) }
            }
            return []
        }
        let entry = entries.remove(at: index)
        guard success else {
            let reason = (error ?? "rejected without a reason").printable(limit: 500)
            if entry.isInitial { refusal = reason }
            return result(entry, .rejected(reason), now)
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

    /// Fails all requests in flight, after an `error` from the service.
    mutating func failInFlight(_ reason: String, now: Duration) -> [PromptResult] {
        let failed = entries.filter { $0.inFlight != nil }
        entries.removeAll { $0.inFlight != nil }
        if failed.contains(where: \.isInitial) { refusal = reason }
        return failed.flatMap { result($0, .rejected(reason), now) }
    }

    /// Stores all requests at the end of the session for the next start.
    mutating func storeAll(now: Duration) -> [PromptResult] {
        let stored = exchange(&entries, with: [])
        for entry in stored where entry.id != nil { accepted = accepted.applying(entry.update) }
        return stored.flatMap { result($0, .stored, now) }
    }

    /// Returns the outcome so far. If all newer requests were rejected, the content accepted before is tried once more.
    mutating func initialState(now: Duration) -> Initial {
        if entries.contains(where: \.isInitial) { return .pending }
        if hasAcceptance { return .accepted }
        if !triedReplay {
            triedReplay = true
            append(PromptUpdate(), id: nil, now: now)
            entries[entries.count - 1].isInitial = true
            return .pending
        }
        return .refused(refusal ?? "rejected without a reason")
    }

    // MARK: Timeouts

    /// The earliest deadline of the requests in flight.
    var nextDeadline: Duration? { entries.compactMap { $0.inFlight?.deadline }.min() }

    mutating func expire(now: Duration) -> [PromptResult] {
        scheduledDeadline = nil
        func isDue(_ entry: Entry) -> Bool { entry.inFlight?.deadline.map { $0 <= now } ?? false }
        let due = entries.filter(isDue)
        entries.removeAll(where: isDue)
        expired = (expired + due).suffix(PromptTracker.expiredCapacity)
        return due.flatMap { result($0, .timedOut, now) }
    }

    private func result(_ entry: Entry, _ outcome: PromptResult.Outcome, _ now: Duration) -> [PromptResult] {
        guard let id = entry.id, !entry.isReported else { return [] }
        return [
            PromptResult(
                id: id, text: entry.update.prompt?.text ?? accepted.text, outcome: outcome,
                elapsed: max(now - entry.requestedAt, .zero))
        ]
    }
}
