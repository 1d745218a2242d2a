// Fakes for everything outside a session controller: clock, signalling channel and media path.
import DecartProtocol
import DecartSession
import Log
import Synchronization
import TestSupport

/// Virtual time; work runs on the test's thread when the test calls `run` or `advance`.
final class ManualScheduler: SessionScheduler {
    private struct State {
        var now: Duration = .zero
        var queue: [@Sendable () -> Void] = []
        var timers: [(due: Duration, order: Int, work: @Sendable () -> Void)] = []
        var order = 0
    }

    private let state = Mutex(State())

    var now: Duration { state.withLock { $0.now } }
    var pendingTimers: Int { state.withLock { $0.timers.count } }

    func async(_ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.queue.append(work) }
    }

    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        state.withLock {
            $0.order += 1
            $0.timers.append((due: $0.now + delay, order: $0.order, work: work))
        }
    }

    /// Runs all work that is due now.
    func run() {
        while true {
            let work = state.withLock { $0.queue.isEmpty ? nil : $0.queue.removeFirst() }
            guard let work else { return }
            work()
        }
    }

    func advance(_ duration: Duration) {
        let end = now + duration
        run()
        while true {
            let next = state.withLock { state -> (@Sendable () -> Void)? in
                guard
                    let index = state.timers.indices.min(by: {
                        (state.timers[$0].due, state.timers[$0].order) < (state.timers[$1].due, state.timers[$1].order)
                    }), state.timers[index].due <= end
                else { return nil }
                state.now = max(state.now, state.timers[index].due)
                return state.timers.remove(at: index).work
            }
            guard let next else { break }
            next()
            run()
        }
        state.withLock { $0.now = end }
        run()
    }
}

final class FakeChannel: SignallingChannel {
    struct State {
        var sent: [ClientMessage] = []
        var closes = 0
    }

    let state = Mutex(State())
    let onEvent: @Sendable (SignallingEvent) -> Void
    /// If false, `close` is never confirmed by an event.
    let answersClose: Bool

    init(answersClose: Bool, onEvent: @escaping @Sendable (SignallingEvent) -> Void) {
        self.answersClose = answersClose
        self.onEvent = onEvent
    }

    var sent: [ClientMessage] { state.withLock { $0.sent } }
    var closes: Int { state.withLock { $0.closes } }

    func open(timeout: Duration) {}

    func send(_ text: [UInt8]) {
        guard let message = try? ClientMessage(decoding: text) else { return }
        state.withLock { $0.sent.append(message) }
    }

    func close() {
        let isFirst = state.withLock {
            $0.closes += 1
            return $0.closes == 1
        }
        if isFirst, answersClose { onEvent(.closed(code: 1000, reason: "")) }
    }

    static let key = "ek_fetched+key/of=this-attempt"
    var secret: Secret? { Secret(Self.key) }

    func redacting(_ text: String) -> String { text == "canary" ? "<redacted>" : text }

    func say(_ message: ServerMessage) throws { onEvent(.text(try message.encoded())) }
}

final class FakeMedia: MediaTransport {
    struct State {
        var start: MediaStart?
        var answers: [String] = []
        var stops = 0
        var keyframeRequests = 0
        var restarts = 0
        var traffic = MediaTraffic(sent: 0, received: 0)
    }

    let state = Mutex(State())
    let onEvent: @Sendable (MediaEvent) -> Void
    let answersStop: Bool

    init(answersStop: Bool, onEvent: @escaping @Sendable (MediaEvent) -> Void) {
        self.answersStop = answersStop
        self.onEvent = onEvent
    }

    var stops: Int { state.withLock { $0.stops } }

    func start(_ start: MediaStart) { state.withLock { $0.start = start } }
    func recover() { state.withLock { $0.restarts += 1 } }
    func requestKeyframe() { state.withLock { $0.keyframeRequests += 1 } }
    func rollbackOffer() {}
    func apply(answer sdp: String) { state.withLock { $0.answers.append(sdp) } }
    func apply(offer sdp: String) {}
    func apply(candidate: CandidateMessage?) {}
    var traffic: MediaTraffic { state.withLock { $0.traffic } }

    func stop() {
        let isFirst = state.withLock {
            $0.stops += 1
            return $0.stops == 1
        }
        if isFirst, answersStop { onEvent(.stopped) }
    }
}

/// A controller with its fakes and everything that it reported.
final class World: Sendable {
    struct Told {
        var channels: [FakeChannel] = []
        var media: [FakeMedia] = []
        var snapshots: [SessionSnapshot] = []
        var reports: [SessionReport] = []
        var completions = 0
    }

    let scheduler = ManualScheduler()
    let redactor: RunRedactor
    private let observed = Watched(Told())
    private let held: Mutex<SessionController?>

    init(
        answers: Bool = true, failing: SessionError? = nil, logger: Logger = .none,
        configure: (inout SessionConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = SessionConfiguration(initial: SessionContent(prompt: try Prompt("Lego World")))
        configure(&configuration)
        redactor = RunRedactor(configuration)
        held = Mutex(
            SessionController(
                configuration: configuration, scheduler: scheduler, logger: logger, redactor: redactor,
                makeChannel: { [observed] _, _, onEvent throws(SessionError) in
                    if let failing { throw failing }
                    let channel = FakeChannel(answersClose: answers, onEvent: onEvent)
                    observed.change { $0.channels.append(channel) }
                    return channel
                },
                makeMedia: { [observed] _, _, onEvent throws(SessionError) in
                    let media = FakeMedia(answersStop: answers, onEvent: onEvent)
                    observed.change { $0.media.append(media) }
                    return media
                },
                onChange: { [observed] snapshot in observed.change { $0.snapshots.append(snapshot) } },
                onEvent: { [observed] report in observed.change { $0.reports.append(report) } }))
    }

    var reported: Told { observed.value }
    func with<Result>(_ body: (SessionController) -> Result) -> Result? {
        guard let controller = held.withLock({ $0 }) else { return nil }
        return body(controller)
    }

    func letGo() { held.withLock { $0 = nil } }

    func stop() { _ = with { $0.stop { [observed] in observed.change { $0.completions += 1 } } } }

    /// A world whose session is connected.
    static func connected(answers: Bool = true) throws -> World {
        let world = try World(answers: answers)
        _ = world.with { $0.start() }
        world.scheduler.run()
        try world.connectCurrent()
        return world
    }

    func connectCurrent() throws {
        guard let channel = reported.channels.last else { return }
        channel.onEvent(.opened(transport: .milliseconds(1), upgrade: .milliseconds(1)))
        try channel.say(.status("ready"))
        scheduler.run()
        for message in channel.sent {
            if case .prompt(let prompt) = message {
                try channel.say(.promptAck(PromptAck(prompt: prompt.text, success: true)))
            }
        }
        scheduler.run()
        guard let media = reported.media.last else { return }
        media.onEvent(.offer(sdp: "offer"))
        scheduler.run()
        try channel.say(.answer(sdp: "answer"))
        media.onEvent(.connected(ice: nil, dtls: nil))
        media.onEvent(.firstFrame)
        scheduler.run()
    }
}
