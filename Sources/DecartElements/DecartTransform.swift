// `decarttransform`: raw video in, transformed video out, over one session with the service.
//
// Lock order: none is held while another is taken, nor while anything is emitted, posted or set.
import DecartProtocol
import DecartSession
import Dispatch
import GStreamerKit
import Synchronization
import WebRTCTransport

final class DecartTransform: ElementImplementation {
    // MARK: Class

    static let elementClass = ElementClass(
        typeName: "GstDecartTransform", parent: .bin, longName: "Decart realtime video transform",
        classification: "Filter/Effect/Video/Network",
        summary: "Sends live video to Decart's realtime service over WebRTC and gives the transformed video back",
        author: "The gst-decart authors",
        pads: [
            PadTemplate(name: "sink", direction: .sink, presence: .always, caps: InputChain.caps),
            PadTemplate(name: "src", direction: .source, presence: .always, caps: VideoOutput.templateCaps),
        ],
        properties: TransformProperties.specs,
        signals: [SignalSpec(name: "encoder-setup", parameters: [.element])],
        make: { DecartTransform($0) })

    private static let log = DebugCategory("decarttransform", "Decart realtime video transform")

    // MARK: Settings and state

    private struct State {
        var settings = TransformSettings()
        var session: ElementSession?
        var snapshot = SessionSnapshot()
        var input: InputChain?
        var output: VideoOutput?
        var targetBitrate = -1
        /// Why the element could not be put together, told when it is started.
        var buildError: GStreamerError?
        /// Drains after EOS.
        var draining = false
    }
    private let state = Mutex(State())
    private let handle: ElementHandle

    // MARK: Pads

    private init(_ handle: ElementHandle) {
        self.handle = handle
        let bin = handle.unowned
        bin.suppressSourceAndSinkFlags()
        if let source = handle.makePad(template: "src") {
            let output = VideoOutput(pad: source, element: handle, log: Self.log)
            state.withLock { $0.output = output }
            bin.add(source)
        }
        guard let sink = handle.makeGhostPad(template: "sink") else { return }
        do {
            let input = try InputChain()
            let target = try input.install(in: bin)
            sink.setTarget(target)
            bin.add(sink)
            input.onOverrun { [weak self] in self?.countDrop() }
            guardInput(sink, target, input)
            state.withLock { $0.input = input }
        } catch {
            bin.add(sink)
            state.withLock { $0.buildError = error }
        }
    }

    private func guardInput(_ sink: Pad, _ target: Pad, _ input: InputChain) {
        // A wrapper lives no longer than who holds it: the probe holds the queue's pad, and its own pad without a reference.
        let own = sink.unowned
        sink.addProbe([.buffer, .downstreamEvent, .flushEvent]) { [weak self, weak input, own, target] item in
            guard let self, let input else { return .drop }
            switch item {
            case .buffer(let buffer):
                return input.gate.admit(buffer, pad: own, element: self.handle.unowned) ? .pass : .drop
            case .event(let event): return self.takeInput(event, input, queue: target)
            case .query: return .pass
            }
        }
    }

    /// An event on upstream's thread.
    private func takeInput(_ event: Event, _ input: InputChain, queue: Pad) -> ProbeVerdict {
        switch event.kind {
        case .segment: input.gate.take(segment: event)
        case .flushStart: input.gate.set(flushing: true)
        case .flushStop: input.gate.set(flushing: false)
        case .tag:
            guard let orientation = event.imageOrientationTag else {
                state.withLock(\.output)?.forward(event)
                return .pass
            }
            // In order with the frames: a custom event carries the rotation through the queue.
            let rotation = Structure(ImageRotation.eventName)
            rotation["rotation"] = GValueBox(orientation)
            queue.send(Event.customDownstream(rotation))
            guard let rest = event.withoutImageOrientation() else { return .drop }
            state.withLock(\.output)?.forward(rest)
            return .replaceEvent(rest)
        case .eos:
            drain()
            return .drop
        default: break
        }
        return .pass
    }

    private func countDrop() {
        guard let input = state.withLock(\.input) else { return }
        let counters = input.gate.countDropped()
        let element = handle.unowned
        element.post(
            Message.qos(
                element, runningTime: element.currentRunningTime, timestamp: nil, duration: nil,
                processed: counters.framesSent, dropped: counters.framesDropped))
    }

    // MARK: Properties

    func setProperty(_ name: String, _ value: GValueBox) {
        _ = state.withLock { $0.settings.set(name, value) }
        if name == "fit" { applyGeometry() }
    }

    func property(_ name: String) -> GValueBox? {
        switch name {
        case "connection-state":
            return GValueBox(
                enumeration: TransformProperties.connectionStateType, state.withLock(\.snapshot.state).enumerationValue)
        case "session-id": return GValueBox(state.withLock(\.snapshot.sessionID))
        case "stats": return GValueBox(structure: statistics())
        default: return state.withLock { $0.settings.value(name) }
        }
    }

    /// All prompt properties of one g_object_set are one update.
    func propertiesChanged(_ names: [String]) {
        let changed = TransformProperties.promptProperties.intersection(names)
        guard !changed.isEmpty else { return }
        let (session, settings) = state.withLock { ($0.session, $0.settings) }
        session?.async { [weak self] in self?.update(settings, changed, session) }
    }

    private func statistics() -> Structure {
        let (input, output, snapshot, session, bitrate) = state.withLock {
            ($0.input, $0.output, $0.snapshot, $0.session, $0.targetBitrate)
        }
        return TransformStatistics.structure(
            input: input?.gate.counters ?? InputCounters(), output: output?.counters ?? OutputCounters(),
            snapshot: session == nil ? nil : snapshot, transport: session?.statistics, targetBitrate: bitrate,
            receivedSize: output?.negotiatedFormat)
    }

    /// The session's queue, for an image is read from a file.
    private func update(_ settings: TransformSettings, _ changed: Set<String>, _ session: ElementSession?) {
        do throws(ProtocolError) {
            var update = PromptUpdate()
            if !changed.isDisjoint(with: ["prompt", "enrich"]) {
                update.prompt = try Prompt(settings.prompt, enrich: settings.enrich)
            }
            if changed.contains("reference-image") {
                let model = try DecartModel(named: settings.model)
                if let path = settings.referenceImage {
                    guard model.supportsReferenceImage else {
                        throw ProtocolError(.invalidOptions, "The model \(model.name) takes no reference image.")
                    }
                    update.image = .set(try ReferenceImage(path: path))
                } else {
                    update.image = .removed
                }
            }
            session?.controller.updatePrompt(update)
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
        }
    }

    // MARK: State changes

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        switch change {
        case .nullToReady:
            guard checkInstallation() else { return .failure }
            return chainUp()
        case .readyToPaused:
            guard start() else { return .failure }
            let result = chainUp()
            guard result != .failure else {
                end()
                return result
            }
            begin()
            return .noPreroll
        case .pausedToPlaying:
            let result = chainUp()
            state.withLock(\.output)?.set(playing: true)
            return result
        case .playingToPaused:
            state.withLock(\.output)?.set(playing: false)
            let result = chainUp()
            return result == .failure ? result : .noPreroll
        case .pausedToReady:
            state.withLock(\.input)?.gate.set(flushing: true)
            end()
            let result = chainUp()
            state.withLock { state in
                state.input?.gate.reset()
                state.snapshot = SessionSnapshot()
                state.draining = false
            }
            return result
        case .readyToNull, .other: return chainUp()
        }
    }

    private func checkInstallation() -> Bool {
        let (error, settings) = state.withLock { ($0.buildError, $0.settings) }
        if let error {
            handle.unowned.postError(Self.missing(error.message))
            return false
        }
        let codec = settings.videoCodec
        let needed = ["rtpbin", codec.payloader, codec.depayloader, "capssetter", "rtprtxsend", "rtprtxreceive"]
        if let lacking = needed.first(where: { !GStreamerRuntime.hasElement($0) }) {
            handle.unowned.postError(Self.missing("the GStreamer element '\(lacking)' is not installed"))
            return false
        }
        guard codec.installedDecoder != nil, codec.installedEncoder != nil || !settings.encoder.isEmpty else {
            handle.unowned.postError(
                Self.missing(
                    "\(codec.encodingName) needs one of \(codec.encoders.joined(separator: ", ")) and one of "
                        + codec.decoders.joined(separator: ", ")))
            return false
        }
        return true
    }

    private static func missing(_ what: String) -> ElementProblem {
        ElementProblem(.coreMissingPlugin, "A GStreamer plugin is missing: \(what). Install the packages that the README names.")
    }

    /// Checks the settings and prepares both ends; nothing is sent yet.
    private func start() -> Bool {
        let (settings, input, output) = state.withLock { ($0.settings, $0.input, $0.output) }
        guard let input, let output else { return false }
        let plan: SessionPlan
        do throws(SessionError) {
            plan = try SessionPlan(settings, isPortrait: settings.orientation == .portrait)
        } catch {
            handle.unowned.postError(ElementProblem(error, sessionID: nil))
            return false
        }
        let format = plan.media
        input.gate.set(flushing: false)
        input.gate.setMaximumRate(framesPerSecond: format.framerate)
        input.configure(width: format.width, height: format.height, fit: settings.fit)
        output.configure(
            OutputFormat(width: format.width, height: format.height, framerate: (max(1, settings.framerate > 0 ? settings.framerate : format.framerate), 1)),
            followsReceived: settings.outputSize == .received, latency: UInt64(settings.latency) &* 1_000_000)
        let host = MediaHost(
            element: handle, input: input, output: output, log: Self.log,
            onEncoder: { [weak self] encoder in
                self?.handle.unowned.emit("encoder-setup", [GValueBox(object: encoder)])
            })
        let session = ElementSession(
            plan: plan, host: host, onChange: { [weak self] in self?.changed($0) },
            onReport: { [weak self] in self?.report($0) })
        state.withLock {
            $0.session = session
            $0.targetBitrate = format.bitrate
        }
        return true
    }

    private func begin() {
        let session = state.withLock(\.session)
        session?.controller.start()
    }

    private func end() {
        let session = state.withLock { state in
            defer { state.session = nil }
            return state.session
        }
        session?.stop()
    }

    private func applyGeometry() {
        let (settings, input, running) = state.withLock { ($0.settings, $0.input, $0.session != nil) }
        guard running, let input, let plan = try? SessionPlan(settings, isPortrait: settings.orientation == .portrait) else { return }
        input.configure(width: plan.media.width, height: plan.media.height, fit: settings.fit)
    }

    // MARK: The session's words (its queue)

    private func changed(_ snapshot: SessionSnapshot) {
        let before = state.withLock { state in
            defer { state.snapshot = snapshot }
            return state.snapshot
        }
        let element = handle.unowned
        if before.state != snapshot.state {
            Self.log(.info, element, "session is \(snapshot.state.rawValue)")
            element.notify("connection-state")
        }
        if before.sessionID != snapshot.sessionID { element.notify("session-id") }
    }

    private func report(_ report: SessionReport) {
        switch report {
        case .failed(let error):
            let id = state.withLock(\.snapshot.sessionID)
            handle.unowned.postError(ElementProblem(error, sessionID: id))
        case .warning(let error): warn(error)
        case .promptResult(let result):
            if let error = result.error {
                warn(SessionError(.processing, "The prompt was not taken: \(error)", stage: .generation))
            }
        case .note(let text): Self.log(.debug, handle.unowned, text)
        }
    }

    private func warn(_ error: SessionError) {
        handle.unowned.postWarning(ElementProblem(error, sessionID: state.withLock(\.snapshot.sessionID)))
    }

    // MARK: Events and messages

    /// A child's error must not stop the pipeline while the session can deal with it.
    func handleMessage(_ message: Message) -> Message? {
        switch message.kind {
        case .eos: return nil
        default: return message
        }
    }

    func sendEvent(_ event: Event) -> Bool? {
        guard event.kind == .eos else { return nil }
        drain()
        return true
    }

    /// What was sent may still come back: a second at most, and at once when there is no session.
    private func drain() {
        let (session, output, first) = state.withLock { state in
            defer { state.draining = true }
            return (state.session, state.output, !state.draining)
        }
        guard first else { return }
        guard let session, state.withLock(\.snapshot.state.isConnected) else {
            output?.finish()
            session?.controller.stop()
            return
        }
        drainStep(session, output, left: 10, last: output?.counters.received ?? 0)
    }

    /// Ten looks, 100 ms apart: two without a new frame are the end.
    private func drainStep(_ session: ElementSession, _ output: VideoOutput?, left: Int, last: UInt64) {
        session.after(.milliseconds(left == 10 ? 200 : 100)) { [weak self] in
            let now = output?.counters.received ?? 0
            if left > 1, now != last {
                self?.drainStep(session, output, left: left - 1, last: now)
            } else {
                output?.finish()
                session.controller.stop()
            }
        }
    }
}
