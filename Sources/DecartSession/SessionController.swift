// The dull driver of `SessionMachine`: every fact becomes one mutation and one full drain of orders, on one serial
// queue. It knows channels and media paths by their protocols only, and makes one of each per attempt.
//
// Order: facts from one channel or media path are handled in the order they were told; `start`, `updatePrompt` and
// `stop` in the order they were called. `onChange` and `onEvent` are called on the session's queue, without a lock.
//
// Life: who owns the controller calls `stop` before letting go; letting go without it closes channel and media path
// all the same, but nobody hears of it. Channels and media paths hold the controller weakly.
package import DecartProtocol
package import Dispatch
import Synchronization

// Everything that changes is touched on the scheduler's serial queue only (and in deinit), except what is in a
// Mutex or Atomic.
package final class SessionController: @unchecked Sendable {
    /// Makes the channel of one attempt, whose media path may be known already; may ask for a fresh key first, as `open`
    /// has time for it.
    package typealias MakeChannel =
        @Sendable (AttemptID, TransportGeneration?, _ onEvent: @escaping @Sendable (SignallingEvent) -> Void)
        throws(SessionError) -> any SignallingChannel
    /// Makes the media path of one attempt.
    package typealias MakeMedia =
        @Sendable (AttemptID, MediaStart, _ onEvent: @escaping @Sendable (MediaEvent) -> Void) throws(SessionError)
        -> any MediaTransport

    private let scheduler: any SessionScheduler
    private let makeChannel: MakeChannel
    private let makeMedia: MakeMedia
    private let onChange: @Sendable (SessionSnapshot) -> Void
    private let onEvent: @Sendable (SessionReport) -> Void

    private var machine: SessionMachine
    private var channels: [AttemptID: any SignallingChannel] = [:]
    private var media: [AttemptID: any MediaTransport] = [:]
    /// Told to close or stop, not yet heard of.
    private var closing: [AttemptID: any SignallingChannel] = [:]
    private var stopping: [AttemptID: any MediaTransport] = [:]
    private var completions: [@Sendable () -> Void] = []
    /// The version of each running timer: one that fires late, after it was cancelled or set anew, has another.
    private var timers: [TimerID: UInt64] = [:]
    private var timerVersion: UInt64 = 0

    private let published: Mutex<SessionSnapshot>
    private let requests = Atomic<RequestID>(0)

    /// - Parameters:
    ///   - onChange: called when the snapshot has changed, with the new one.
    ///   - onEvent: results of prompts, warnings, and the one error that ends the session.
    package init(
        configuration: SessionConfiguration,
        scheduler: any SessionScheduler,
        makeChannel: @escaping MakeChannel,
        makeMedia: @escaping MakeMedia,
        onChange: @escaping @Sendable (SessionSnapshot) -> Void,
        onEvent: @escaping @Sendable (SessionReport) -> Void
    ) {
        machine = SessionMachine(configuration: configuration)
        published = Mutex(machine.snapshot)
        self.scheduler = scheduler
        self.makeChannel = makeChannel
        self.makeMedia = makeMedia
        self.onChange = onChange
        self.onEvent = onEvent
    }

    deinit {
        for channel in channels.values { channel.close() }
        for transport in media.values { transport.stop() }
    }

    // MARK: For the application, from any thread

    /// The latest state.
    package var snapshot: SessionSnapshot { published.withLock { $0 } }

    /// Begins a session; again after `stop` or an error. Nothing happens while one is running.
    package func start() {
        scheduler.async { [weak self] in self?.handle(.start) }
    }

    /// One request, whatever its parts; its result comes as an event.
    @discardableResult
    package func updatePrompt(_ update: PromptUpdate) -> RequestID {
        let id = requests.wrappingAdd(1, ordering: .relaxed).newValue
        scheduler.async { [weak self] in self?.handle(.update(update, id: id)) }
        return id
    }

    /// How long a session may last from its first connection on, the present one too; nil: as long as it likes.
    package func limit(to duration: Duration?) {
        scheduler.async { [weak self] in self?.handle(.limit(duration)) }
    }

    /// Lets a limited session last longer.
    package func extend(by duration: Duration) {
        scheduler.async { [weak self] in self?.handle(.extend(by: duration)) }
    }

    /// Ends the session. Returns at once; the completion is called on the session's queue when channel and media path
    /// are gone, or after a second.
    package func stop(_ completion: (@Sendable () -> Void)? = nil) {
        // Strong on purpose: the controller lives until the end has been told.
        scheduler.async {
            if let completion { self.completions.append(completion) }
            self.handle(.stop)
            self.completeIfGone()
            guard !self.completions.isEmpty else { return }
            self.scheduler.schedule(after: .seconds(1)) { self.complete() }
        }
    }

    /// The same at once, from the scheduler's queue, which runs nothing after it.
    package func end() { handle(.stop) }

    // MARK: Facts

    private func handle(_ event: SessionEvent) {
        let before = machine.snapshot
        let actions = machine.handle(event, now: scheduler.now, jitter: Double.random(in: 0...1))
        let after = machine.snapshot
        if after != before { published.withLock { $0 = after } }
        var reports: [SessionReport] = []
        for action in actions {
            if case .report(let report) = action { reports.append(report) } else { perform(action) }
        }
        // Outside is called last, so that what it calls back finds everything done.
        if after != before { onChange(after) }
        for report in reports { onEvent(report) }
    }

    private func signalling(_ event: SignallingEvent, _ id: AttemptID) {
        switch event {
        case .opened(let transport, let upgrade):
            handle(.grant(id, channels[id]?.sessionLimit))
            handle(.channelOpened(id, transport: transport, upgrade: upgrade))
        case .text(let bytes):
            guard let channel = channels[id] else { return }
            defer { channel.messageHandled(size: bytes.count) }
            do {
                let message = try ServerMessage(decoding: bytes).mappingWords { channel.redacting($0) }
                handle(.channelMessage(id, message))
            } catch {
                handle(.channelMalformed(id, reason: error.message))
            }
        case .binary(let bytes):
            defer { channels[id]?.messageHandled(size: bytes.count) }
            handle(.channelMalformed(id, reason: "a binary message"))
        case .closed(let code, let reason):
            channelGone(id)
            handle(.channelClosed(id, code: code, reason: reason))
        case .failed(let error):
            channelGone(id)
            handle(.channelFailed(id, error))
        }
    }

    private func channelGone(_ id: AttemptID) {
        channels[id] = nil
        closing[id] = nil
        completeIfGone()
    }

    private func media(_ event: MediaEvent, _ id: AttemptID) {
        if event == .stopped {
            stopping[id] = nil
            completeIfGone()
        }
        handle(.media(id, event))
    }

    // MARK: Orders

    private func perform(_ action: SessionAction) {
        switch action {
        case .openChannel(let id, let path, let timeout):
            openChannel(id, path, timeout)
        case .send(let id, let message):
            send(message, id)
        case .closeChannel(let id):
            guard let channel = channels.removeValue(forKey: id) else { return }
            closing[id] = channel
            channel.close()
        case .startMedia(let id, let start):
            startMedia(id, start)
        case .applyAnswer(let id, let sdp):
            media[id]?.apply(answer: sdp)
        case .applyOffer(let id, let sdp):
            media[id]?.apply(offer: sdp)
        case .forgetOffer(let id):
            media[id]?.forgetOffer()
        case .applyCandidate(let id, let candidate):
            media[id]?.apply(candidate: candidate)
        case .sampleMedia(let id):
            guard let traffic = media[id]?.traffic else { return }
            enqueue(.mediaSampled(id, traffic))
        case .stopMedia(let id):
            guard let transport = media.removeValue(forKey: id) else { return }
            stopping[id] = transport
            transport.stop()
        case .schedule(let timer, let delay):
            schedule(timer, delay)
        case .cancel(let timer):
            timers[timer] = nil
        case .report:
            break
        }
    }

    private func openChannel(_ id: AttemptID, _ path: TransportGeneration?, _ timeout: Duration) {
        do {
            let channel = try makeChannel(id, path) { [weak self, scheduler] event in
                scheduler.async { [weak self] in self?.signalling(event, id) }
            }
            channels[id] = channel
            channel.open(timeout: timeout)
        } catch {
            enqueue(.channelFailed(id, error))
        }
    }

    private func startMedia(_ id: AttemptID, _ start: MediaStart) {
        do {
            let transport = try makeMedia(id, start) { [weak self, scheduler] event in
                scheduler.async { [weak self] in self?.media(event, id) }
            }
            media[id] = transport
            transport.start(start)
        } catch {
            enqueue(.media(id, .failed(error)))
        }
    }

    private func send(_ message: ClientMessage, _ id: AttemptID) {
        guard let channel = channels[id] else { return }
        do {
            channel.send(try message.encoded())
        } catch {
            let failure = SessionError(error.code, error.message, stage: .channel, isPermanent: true)
            enqueue(.channelFailed(id, failure))
        }
    }

    /// A fact that comes about while orders are carried out waits its turn.
    private func enqueue(_ event: SessionEvent) {
        scheduler.async { [weak self] in self?.handle(event) }
    }

    private func schedule(_ timer: TimerID, _ delay: Duration) {
        timerVersion &+= 1
        let version = timerVersion
        timers[timer] = version
        scheduler.schedule(after: delay) { [weak self] in
            guard let self, self.timers[timer] == version else { return }
            self.timers[timer] = nil
            self.handle(.timerFired(timer))
        }
    }

    // MARK: The end

    private func completeIfGone() {
        guard channels.isEmpty, media.isEmpty, closing.isEmpty, stopping.isEmpty else { return }
        complete()
    }

    private func complete() {
        let waiting = completions
        completions = []
        for completion in waiting { completion() }
    }
}

extension SessionController {
    /// With the system's clock, on a serial queue of its own.
    package convenience init(
        configuration: SessionConfiguration,
        queue: DispatchQueue,
        makeChannel: @escaping MakeChannel,
        makeMedia: @escaping MakeMedia,
        onChange: @escaping @Sendable (SessionSnapshot) -> Void,
        onEvent: @escaping @Sendable (SessionReport) -> Void
    ) {
        self.init(
            configuration: configuration, scheduler: DispatchScheduler(queue: queue), makeChannel: makeChannel,
            makeMedia: makeMedia, onChange: onChange, onEvent: onEvent)
    }
}
