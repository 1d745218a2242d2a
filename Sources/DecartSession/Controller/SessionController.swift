// The driver of `SessionMachine`: each event is one mutation, followed by all its actions, on one serial queue. It
// knows channels and media paths by their protocols only, and creates one of each per attempt.
//
// Order: events of one channel or media path are handled in the order of their delivery; `start`, `updatePrompt` and
// `stop` in the order of the calls. `onChange` and `onEvent` are called on the session's queue, without a lock.
//
// Lifetime: the owner of the controller calls `stop` before it releases it. Without `stop`, deinit still closes channel
// and media path, but nothing reports their end. Channels and media paths hold the controller weakly.
package import DecartProtocol
package import Log
import Synchronization

// @unchecked: all state that changes is accessed only on the scheduler's serial queue (and in deinit), except what is
// in a Mutex or Atomic.
package final class SessionController: @unchecked Sendable {
    /// Creates the channel of one attempt; the media path is nil if it is not known yet. The channel may fetch a fresh
    /// key first: the timeout of `open` includes that.
    package typealias MakeChannel =
        @Sendable (AttemptID, MediaTransportKind?, _ onEvent: @escaping @Sendable (SignallingEvent) -> Void)
        throws(SessionError) -> any SignallingChannel
    /// Creates the media path of one attempt.
    package typealias MakeMedia =
        @Sendable (AttemptID, MediaStart, _ onEvent: @escaping @Sendable (MediaEvent) -> Void) throws(SessionError)
        -> any MediaTransport

    private let scheduler: any SessionScheduler
    private let makeChannel: MakeChannel
    private let makeMedia: MakeMedia
    private let onChange: @Sendable (SessionSnapshot) -> Void
    private let onEvent: @Sendable (SessionReport) -> Void

    private var machine: SessionMachine
    private var log: SessionLog
    /// All texts of peers pass it, see `handle`.
    private let redactor: RunRedactor
    private var channels: [AttemptID: any SignallingChannel] = [:]
    /// An attempt that joins its room again has another media path, with another version.
    private var media: [AttemptID: (version: UInt64, transport: any MediaTransport)] = [:]
    private var mediaVersion: UInt64 = 0
    /// Channels that are closing, until their last event arrives.
    private var closing: [AttemptID: any SignallingChannel] = [:]
    /// Media paths that are stopping, until `stopped` arrives.
    private var stopping: [UInt64: any MediaTransport] = [:]
    private var completions: [@Sendable () -> Void] = []
    private let timers: MachineTimers<TimerID>

    private let published: Mutex<SessionSnapshot>
    private let requests = Atomic<RequestID>(0)

    /// - Parameters:
    ///   - redactor: shared with the log of channels and media paths.
    ///   - onChange: called with the new snapshot when it has changed.
    ///   - onEvent: called with each report, such as a prompt result, a warning, or the one error that ends the
    ///     session.
    package init(
        configuration: SessionConfiguration,
        scheduler: any SessionScheduler,
        logger: Logger = .none,
        redactor: RunRedactor? = nil,
        makeChannel: @escaping MakeChannel,
        makeMedia: @escaping MakeMedia,
        onChange: @escaping @Sendable (SessionSnapshot) -> Void,
        onEvent: @escaping @Sendable (SessionReport) -> Void
    ) {
        machine = SessionMachine(configuration: configuration)
        log = SessionLog(logger, configuration)
        self.redactor = redactor ?? RunRedactor(configuration)
        published = Mutex(machine.snapshot)
        (self.scheduler, timers) = (scheduler, MachineTimers(scheduler))
        self.makeChannel = makeChannel
        self.makeMedia = makeMedia
        self.onChange = onChange
        self.onEvent = onEvent
    }

    deinit {
        for channel in channels.values { channel.close() }
        for path in media.values { path.transport.stop() }
    }

    // MARK: Application interface, any thread

    package var snapshot: SessionSnapshot { published.withLock { $0 } }

    /// Starts a session, also after `stop` or an error. Has no effect while one is running.
    package func start() { enqueue(.start) }

    /// Makes one request, whatever its parts; its result comes as a report.
    @discardableResult
    package func updatePrompt(_ update: PromptUpdate) -> RequestID {
        let id = requests.wrappingAdd(1, ordering: .relaxed).newValue
        enqueue(.update(update, id: id))
        return id
    }

    /// Limits how long a session may last after its first connection, including the present session; nil: unlimited.
    package func limit(to duration: Duration?) { enqueue(.limit(duration)) }

    /// Informs the session that the application stops or resumes sending video on purpose, so that silence is no fault.
    package func mute(_ isMuted: Bool) { enqueue(.mute(isMuted)) }

    /// Lets a limited session last longer.
    package func extend(by duration: Duration) { enqueue(.extend(by: duration)) }

    /// Call when addresses or routes of this host have changed.
    /// - Parameter addresses: those that candidates can have now.
    package func networkChanged(_ addresses: Set<String>) {
        scheduler.async { [weak self] in
            guard let self else { return }
            let lost = self.media.filter { $0.value.transport.networkChanged(addresses) }.keys.max()
            self.handle(.networkChanged(lost: lost))
        }
    }

    /// Ends the session. Returns at once; the completion is called on the session's queue when channel and media path
    /// are gone, or after one second.
    package func stop(_ completion: (@Sendable () -> Void)? = nil) {
        // Capture self strongly, so that the controller lives until it has called the completion.
        scheduler.async {
            if let completion { self.completions.append(completion) }
            self.handle(.stop)
            self.completeIfGone()
            guard !self.completions.isEmpty else { return }
            self.scheduler.schedule(after: .seconds(1)) { self.complete() }
        }
    }

    /// Ends the session at once. Called on the scheduler's queue, which runs nothing afterwards.
    package func end() { handle(.stop) }

    // MARK: Events

    private func handle(_ event: SessionEvent) {
        learn(event)
        let event = event.mappingText { redactor($0) }
        if case .channelMessage(_, let message) = event { log.received(message) }
        let before = machine.snapshot
        let actions = machine.handle(event, now: scheduler.now, jitter: Double.random(in: 0...1))
        let after = machine.snapshot
        if after != before { published.withLock { $0 = after } }
        log.handled(actions, before, after)
        var reports: [SessionReport] = []
        for action in actions {
            if case .report(let report) = action { reports.append(report) } else { perform(action) }
        }
        // Call the application last, so that its calls back find all actions done.
        if after != before { onChange(after) }
        for report in reports { onEvent(report) }
    }

    /// Takes over the secrets and prompts that an event carries.
    private func learn(_ event: SessionEvent) {
        switch event {
        case .update(let update, _): redactor.add(update.prompt?.text ?? "")
        case .channelMessage(_, .livekitRoomInfo(let info)): redactor.add(info.token.reveal())
        case .media(_, .lost(_, again: .room(_, let token))): redactor.add(token.reveal())
        case .channelMessage(_, .turnConfig(let relay)):
            for text in [relay.username, relay.credential?.reveal()] { redactor.add(text ?? "") }
        default: break
        }
    }

    private func signalling(_ event: SignallingEvent, _ id: AttemptID) {
        switch event {
        case .opened(let transport, let upgrade):
            if let secret = channels[id]?.secret { redactor.add(secret.reveal()) }
            handle(.grant(id, channels[id]?.sessionLimit))
            handle(.channelOpened(id, transport: transport, upgrade: upgrade))
        case .text(let bytes):
            guard let channel = channels[id] else { return }
            defer { channel.messageHandled(size: bytes.count) }
            do {
                handle(.channelMessage(id, try ServerMessage(decoding: bytes).mappingText(channel.redacting)))
            } catch {
                handle(.channelMalformed(id, reason: error.message))
            }
        case .binary(let bytes):
            defer { channels[id]?.messageHandled(size: bytes.count) }
            handle(.channelMalformed(id, reason: "a binary message"))
        case .silent(let error): handle(.channelSilent(id, error))
        case .answered: handle(.channelAnswered(id))
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

    private func media(_ event: MediaEvent, _ id: AttemptID, _ version: UInt64) {
        if event == .stopped {
            stopping[version] = nil
            completeIfGone()
        }
        // Late events of a path that was replaced have no effect.
        if media[id].map({ $0.version == version }) ?? true { handle(.media(id, event)) }
    }

    // MARK: Actions

    private func perform(_ action: SessionAction) {
        switch action {
        case .openChannel(let id, let path, let timeout): openChannel(id, path, timeout)
        case .send(let id, let message): send(message, id)
        case .closeChannel(let id):
            guard let channel = channels.removeValue(forKey: id) else { return }
            closing[id] = channel
            channel.close()
        case .startMedia(let id, let start): startMedia(id, start)
        case .applyAnswer(let id, let sdp): media[id]?.transport.apply(answer: sdp)
        case .applyOffer(let id, let sdp): media[id]?.transport.apply(offer: sdp)
        case .rollbackOffer(let id): media[id]?.transport.rollbackOffer()
        case .recover(let id): media[id]?.transport.recover()
        case .requestKeyframe(let id): media[id]?.transport.requestKeyframe()
        case .suspectPath(let id): media[id]?.transport.suspectPath()
        case .probeChannel(let id): channels[id]?.probe()
        case .applyCandidate(let id, let candidate): media[id]?.transport.apply(candidate: candidate)
        case .sampleMedia(let id):
            guard let traffic = media[id]?.transport.traffic else { return }
            enqueue(.mediaSampled(id, traffic))
        case .stopMedia(let id):
            guard let (version, transport) = media.removeValue(forKey: id) else { return }
            stopping[version] = transport
            transport.stop()
        case .schedule(let timer, let delay):
            timers.schedule(timer, after: delay) { [weak self] in self?.handle(.timerFired(timer)) }
        case .cancel(let timer): timers.cancel(timer)
        case .report: break
        }
    }

    private func openChannel(_ id: AttemptID, _ path: MediaTransportKind?, _ timeout: Duration) {
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
        mediaVersion &+= 1
        let version = mediaVersion
        do {
            let transport = try makeMedia(id, start) { [weak self, scheduler] event in
                scheduler.async { [weak self] in self?.media(event, id, version) }
            }
            media[id] = (version, transport)
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

    /// Queues an event, so that the actions that are being performed come first.
    private func enqueue(_ event: SessionEvent) {
        scheduler.async { [weak self] in self?.handle(event) }
    }

    // MARK: Completion

    private func completeIfGone() {
        guard channels.isEmpty, media.isEmpty, closing.isEmpty, stopping.isEmpty else { return }
        complete()
    }

    private func complete() {
        for completion in exchange(&completions, with: []) { completion() }
    }
}
