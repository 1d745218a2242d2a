// `decarttransform`: sends raw video through one session with the service and outputs the transformed video.
//
// Locks: `state` is held while the outputs end and the session begins or ends, which takes their locks; else none is held
// while another is taken. Nothing is emitted, posted, set or released under a lock.
import DecartProtocol
import DecartSession
import EventLoopThreads
import GStreamerKit
import MediaPipeline
import MediaSecurity
import RTP
import Synchronization
import WebRTCTransport

final class DecartTransform: ElementImplementation {
    // MARK: Class

    static let elementClass = ElementClass(
        typeName: "GstDecartTransform", parent: .bin, longName: "Decart realtime video transform",
        classification: "Filter/Effect/Video/Network",
        summary: "Sends live video to Decart's realtime service over WebRTC and gives the transformed video back",
        author: "The gst-decart authors",
        documentation: "file:///usr/share/doc/gstreamer1.0-decart/docs/PROPERTIES.md#decarttransform",
        pads: [
            PadTemplate(
                name: "sink", direction: .sink, presence: .always, caps: "\(InputChain.caps); \(EncodedInput.caps)"),
            PadTemplate(name: "src", direction: .source, presence: .always, caps: VideoOutput.templateCaps),
            PadTemplate(name: "audio_sink", direction: .sink, presence: .request, caps: AudioInput.caps),
            PadTemplate(name: "audio_src", direction: .source, presence: .sometimes, caps: AudioFormat.templateCaps),
        ],
        properties: TransformProperties.specs,
        signals: TransformProperties.signals,
        make: { DecartTransform($0) })

    static let log = DebugCategory("decarttransform", "Decart realtime video transform")

    // MARK: Settings and state

    struct State {
        var settings = TransformSettings()
        /// Properties of the prompt that a g_object_set has set and not yet notified.
        var changedPromptProperties: Set<String> = []
        /// False while the element around this one has released its camera, or waits for one that dials in.
        var expectsInput = true
        /// The pipeline had no clock.
        var hasOwnClock = false
        /// Shown until the element is in READY again.
        var snapshot = SessionSnapshot()
        var history = SessionHistory(now: MonotonicTime.now)
        var quality = QualityJudge()
        /// Set while the element runs.
        var run: Run?
        /// Limits QOS messages.
        var lossMessages = Throttle(.milliseconds(200))
        /// Limits warnings about a frame that is smaller than its caps say.
        var incompleteWarnings = Throttle(.seconds(60))
    }

    /// State of one run, from READY→PAUSED to PAUSED→READY.
    struct Run {
        let session: ElementSession
        /// Size of the frames that are sent.
        let size: CurrentFrameSize
        /// Set with `timestamps=capture`.
        let timing: CaptureTiming?
        let watch: SessionWatch
        var steering = BitrateSteering()
        var fallback = RawFallbackState()
        /// Posted once if the service turns out to use LiveKit.
        var codecWarning: String?
        /// nil for a viewer.
        var doubts: Doubts?
        /// Limits the warning about the encoder to one per start; a session may make several encoders.
        var hasWarnedOfEncoder = false
        var input: InputPhase
        /// Format of the last keyframe of an encoded input.
        var sentFormat: EncodedVideoFormat?
        /// Sizes that an encoded input may have, in either orientation.
        let sizes: [VideoFormat]
        /// Counters of input and output at the start.
        var framesBefore: (sent: UInt64, received: UInt64) = (0, 0)
        var outcome = RunOutcome()
    }

    /// The branch of `fallback=passthrough`, and who changes it.
    struct RawFallbackState {
        var raw: RawFallback?
        /// A thread builds or removes the branch.
        var isChanging = false
        /// The property may have changed since that thread read it.
        var isStale = false
    }
    let state = Mutex(State())
    /// All of one moment.
    var now: State { state.withLock(\.self) }
    var session: ElementSession? { state.withLock(\.run?.session) }
    /// Part of an element that has the same properties.
    let isProxied = Atomic(false)
    let handle: ElementHandle
    let input: InputChain?
    /// Set with `input`.
    private let memory: InputMemory?
    let output: VideoOutput?
    /// Error from building the children, posted when the element goes to READY.
    private let buildError: GStreamerError?
    let audio: AudioTrack
    let trackStats = VideoTrackStats()
    let totals = ElementTotals()

    // MARK: Pads

    private init(_ handle: ElementHandle) {
        self.handle = handle
        DebianPackage.nameInErrors()
        let pacing = InputPacing()
        audio = AudioTrack(element: handle, pacing: pacing, log: LogCategories.media)
        let bin = handle.unowned
        bin.suppressSourceAndSinkFlags()
        let source = handle.makePad(template: "src")
        output = source.map { VideoOutput(pad: $0, element: handle, log: LogCategories.media) }
        if let source { bin.add(source) }
        let sink = handle.makeGhostPad(template: "sink")
        var parts: (input: InputChain, target: Pad, memory: InputMemory)?
        var failure: GStreamerError?
        do throws(GStreamerError) {
            if let sink {
                let input = try InputChain(pacing: pacing, sink: sink)
                let target = try input.install(in: bin)
                parts = (input, target, InputMemory(sink: sink, chain: input, entry: target))
            }
        } catch { failure = error }
        (input, memory, buildError) = (parts?.input, parts?.memory, failure)
        audio.onEnd = { [weak self] in self?.audioEnded() }
        guard let sink else { return }
        output?.handlers.onEnd = { [weak self] in self?.outputEnded() }
        output?.handlers.onUpstreamEvent = { [own = sink.unowned] in own.push($0) }
        defer { bin.add(sink) }
        guard let (input, target, memory) = parts else { return }
        sink.setTarget(target)
        sink.offerNoCropping()
        output?.handlers.mayFill = { [weak input] in input?.gate.isLive ?? true }
        input.gate.onPreroll { [weak output] in output?.preroll() }
        input.onOverrun { [weak self, weak input] in
            input?.gate.countDropped()
            self?.reportLoss(of: nil)
        }
        guardInput(sink, input, memory)
        answerCaps(sink, memory)
    }

    func requestPad(template: String) -> Pad? {
        guard template == "audio_sink", let pad = audio.request() else { return nil }
        updatePublishedAudio()
        return pad
    }

    /// Turns the session's audio on while `audio_sink` exists and `publish-audio` is set, and for a viewer.
    func updatePublishedAudio() {
        let isPublished = { [audio] (now: State) in
            (now.settings.sending.publishAudio || now.settings.subscribeToken != nil) && audio.isWanted
        }
        settle(isPublished) { $0.run?.session.publish(\.audio, $1) }
    }

    func updatePublishedVideo() {
        settle({ $0.settings.sending.publishVideo }) { now, isPublished in
            now.run?.session.publish(\.video, isPublished)
            if !isPublished { beginAwaited() }
        }
    }

    /// Removes `audio_src`, after its EOS, on the session's queue, behind the work that stops the session's audio.
    func releasePad(_ pad: Pad) {
        audio.release()
        updatePublishedAudio()
        guard let session else { return }
        session.async { [weak self, weak session] in
            self?.audio.hideIfUnwanted { [weak session] in session?.after($0, $1) }
        }
    }

    private func guardInput(_ sink: GhostPad, _ input: InputChain, _ memory: InputMemory) {
        // The closures hold their own pad unretained, to avoid a cycle.
        let own = sink.unowned
        input.gate.onKept { [own] buffer, time in own.passOn(Self.admitted(buffer, at: time) ?? buffer) }
        sink.splitBufferLists()
        sink.addProbe([.buffer, .downstreamEvent, .flushEvent]) { [weak self, weak input, own] item in
            guard let self, let input else { return .drop }
            switch item {
            case .buffer(let buffer):
                if memory.isUnusable { return .drop }
                if input.encoded.isOn {
                    self.receiveEncoded(buffer, own, input)
                    return .drop
                }
                // Stands for a frame that upstream has lost.
                if buffer.size == 0, buffer.isGap { return .drop }
                switch memory.isInUse ? nil : input.fault(of: buffer) {
                case .noCaps:
                    self.failInput(.noCaps(on: own.name, medium: "video"))
                    return .refuse(.notNegotiated)
                case .short(let bytes, let needed):
                    self.dropIncompleteFrame(bytes, needed)
                    return .drop
                case nil: break
                }
                input.frameArrived()
                switch input.gate.admit(buffer, pad: own, element: self.handle.unowned) {
                case .passes(let time): return Self.admitted(buffer, at: time).map(ProbeVerdict.replace) ?? .pass
                case .refused: return .drop
                case .dropped:
                    self.reportLoss(of: buffer)
                    return .drop
                }
            case .event(let event):
                let verdict = self.handleInput(event, input, memory)
                // Behind an encoded input's pad, nothing takes it; the pad keeps sticky events.
                return input.encoded.isOn && !event.isSticky ? .drop : verdict
            case .query: return .pass
            }
        }
    }

    /// The frame as it enters the element; nil: as it is.
    private static func admitted(_ frame: Buffer, at time: ClockTime?) -> Buffer? {
        let whole = frame.withoutCropping()
        guard let time, frame.pts != time, let copy = whole ?? frame.copyOfMetadata() else { return whole }
        copy.pts = time
        return copy
    }

    /// Called on upstream's streaming thread.
    private func prepare(_ memory: InputMemory, for caps: Caps) -> Bool {
        do throws(GStreamerError) {
            // A kept frame is a copy in the system's memory.
            input?.gate.beginCaps(keeps: VideoMemory.named(caps.memory) == nil)
            try memory.prepare(for: caps, in: handle.unowned)
            return true
        } catch {
            let code: ElementProblem.Code = error.code == .badCaps ? .streamFormat : .coreMissingPlugin
            failInput(ElementProblem(code, "\(error.message.capitalizedFirst)."))
            return false
        }
    }

    /// The EOS that follows needs no error of its own.
    private func failInput(_ problem: ElementProblem) {
        state.withLock { $0.run?.outcome.hasFailed = true }
        handle.unowned.postError(problem)
    }

    /// Counts a frame that is smaller than its caps, and posts one warning a minute at most.
    func dropIncompleteFrame(_ bytes: Int, _ needed: Int) {
        let now = MonotonicTime.now
        let isDue = state.withLock { $0.incompleteWarnings.allows(at: now) }
        input?.gate.countIncomplete()
        guard isDue else { return }
        let (found, remedy) =
            bytes == 0
            ? ("no bytes that can be read", "Check the memory of its source.")
            : ("\(bytes) bytes", "Pad the rows, or add a GstVideoMeta.")
        handle.unowned.postWarning(
            ElementProblem(
                .streamFormat,
                "A buffer of the input has \(found), but its caps need \(needed): such frames are dropped. \(remedy)"))
    }

    /// Called on upstream's streaming thread.
    private func handleInput(_ event: Event, _ input: InputChain, _ memory: InputMemory) -> ProbeVerdict {
        if let caps = event.caps, !prepare(memory, for: caps) { return .drop }
        input.arrived(event)
        switch event.kind {
        case .caps:
            if let caps = event.caps, !applyCaps(caps, input) { beginAwaited() }
        case .segment:
            input.gate.set(segment: event)
            // The frames behind this pad have their running time as time stamp.
            return .replaceEvent(Event.timeSegment())
        case .flushStart: input.gate.set(flushing: true)
        case .flushStop:
            guard !input.gate.isLeaving else { return .drop }
            input.gate.set(flushing: false)
            input.encoded.breakOff()
            resume(afterFlush: true)
        case .streamStart:
            if input.gate.apply(streamStart: event) { input.encoded.breakOff() }
            // A source that failed ends its stream, and the one that replaces it begins another. The application's own
            // EOS may come before the first stream.
            resume(afterFlush: false)
            input.turn(by: event)
        case .tag where input.encoded.isOn:
            // The element does not rotate encoded frames; the tag tells downstream how to display them.
            output?.forward(event)
            return .drop
        case .tag:
            input.turn(by: event)
            guard event.imageOrientationTag != nil else {
                output?.forward(event)
                return .pass
            }
            guard let rest = event.withoutImageOrientation() else { return .drop }
            output?.forward(rest)
            return .replaceEvent(rest)
        case .eos:
            input.gate.finish(handle.unowned)
            drain()
            return .drop
        default: return pass(event)
        }
        return .pass
    }

    /// Passes events that are not the input's own to downstream, in order with the frames or past them.
    private func pass(_ event: Event) -> ProbeVerdict {
        guard let passage = event.downstreamPassage else { return .pass }
        switch passage {
        case .inOrder: output?.forward(event)
        case .atOnce: output?.push(event)
        }
        return .drop
    }

    /// Posts a QOS message for a dropped frame of a live input: the first at once, then at most five per second,
    /// because a wait in the service's queue may last long. Each message carries the totals so far.
    /// - Parameter frame: nil if the queue does not report which frame it dropped.
    func reportLoss(of frame: Buffer?) {
        let now = MonotonicTime.now
        guard state.withLock({ $0.lossMessages.allows(at: now) }), let input else { return }
        let (element, counters) = (handle.unowned, input.gate.counters)
        element.post(
            Message.qos(
                element, runningTime: frame.map { input.gate.runningTime(of: $0) } ?? element.currentRunningTime,
                timestamp: frame?.pts, duration: frame?.duration, processed: counters.framesSent,
                dropped: counters.framesDropped))
    }

    // MARK: State changes

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        if change.isStart, handle.unowned.isInsideStoppingBin { return chainUp() }
        switch change {
        case .nullToReady:
            // Before a camera starts, whose threads are lost too.
            guard !NetworkThread.areLost else {
                refuse(ElementProblem(Self.noThread, sessionID: nil))
                return .failure
            }
            guard checkInstallation() else { return .failure }
            return chainUp()
        case .readyToPaused:
            guard start() else { return .failure }
            let result = chainUp()
            guard result != .failure else {
                stopInputs()
                end()
                return result
            }
            begin()
            return waitsInPlayer ? result : .noPreroll
        case .pausedToPlaying:
            provideClock()
            let result = chainUp()
            setPlaying(true)
            return result
        case .playingToPaused:
            setPlaying(false)
            let result = chainUp()
            return result == .failure ? result : .noPreroll
        case .pausedToReady:
            stopInputs()
            end()
            let result = chainUp()
            audio.reset()
            memory?.reset(in: handle.unowned)
            input?.reset()
            let hadOwnClock = state.withLock { state in
                state.snapshot = SessionSnapshot()
                state.history.changed(to: state.snapshot, now: MonotonicTime.now)
                state.quality.reset()
                return exchange(&state.hasOwnClock, with: false)
            }
            if hadOwnClock { handle.unowned.use(nil) }
            return result
        case .readyToNull, .other: return chainUp()
        }
    }

    /// A player that has built its own chain waits until the chain's sinks have prerolled, and forgets those that do so
    /// behind an element without preroll. `VideoOutput.preroll` gives them what they wait for.
    private var waitsInPlayer: Bool {
        handle.unowned.isInside(factory: "playsink") && output?.encoding == nil
    }

    func clockChanged() {
        input?.gate.clockChanged()
        audio.clockChanged()
    }

    /// Without a pipeline, or if the application has taken the pipeline's clock away, the system's clock serves.
    private func provideClock() {
        guard handle.unowned.currentClock == nil else { return }
        state.withLock { $0.hasOwnClock = true }
        handle.unowned.use(.system)
        let text = "The pipeline has no clock, so the element keeps time by the system's clock, and no sink by any."
        LogCategories.media(.warning, handle.unowned, text)
        handle.unowned.postWarning(ElementProblem(.coreClock, text))
    }

    /// Wakes the streaming threads that wait in the element and refuses what follows, so that the pads can be
    /// deactivated.
    private func stopInputs() {
        input?.gate.stop()
        audio.willStop()
    }

    private func setPlaying(_ playing: Bool) {
        input?.gate.set(playing: playing)
        input?.processing.rest()
        output?.set(playing: playing)
        audio.set(playing: playing)
    }

    private func checkInstallation() -> Bool {
        let settings = settings
        if let buildError {
            handle.unowned.postError(.missing(buildError.message))
            return false
        }
        let codecs = settings.videoCodecs
        let needed = ["capssetter"] + codecs.flatMap { [$0.payloader, $0.depayloader] }
        if let lacking = needed.first(where: { !GStreamerRuntime.hasElement($0) }) {
            refuse(.missing(DebianPackage.list([lacking])))
            return false
        }
        output?.readDownstream()
        // A side that is linked to encoded video needs no codec.
        let needsEncoder =
            settings.subscribeToken == nil && settings.encoding.encoder.isEmpty && input?.encoded.isExpected != true
        let needsDecoder = output?.encoding == nil
        let lacking = codecs.first {
            ($0.installedDecoder == nil && needsDecoder) || ($0.installedEncoder == nil && needsEncoder)
        }
        if let codec = lacking {
            refuse(
                .missing(
                    "\(codec.encodingName) needs the encoder \(DebianPackage.list(codec.encoders)), and the decoder "
                        + DebianPackage.list(codec.decoders)))
            return false
        }
        guard SRTPTransform.isInitialised else {
            refuse(
                ElementProblem(
                    .resourceFailed,
                    "The crypto library of libsrtp does not start. Check that /dev/urandom can be read, and that libsrtp2 "
                        + "is installed completely."))
            return false
        }
        if let warning = securityWarning { Self.log(.warning, handle.unowned, warning) }
        for codec in codecs {
            if needsDecoder, let name = codec.installedDecoder { Self.load(name) }
            if needsEncoder, let name = codec.installedEncoder { Self.load(name) }
        }
        return true
    }

    /// Makes the first element of a factory, so that the media path does not: the plugin of libav takes 65 ms to load,
    /// on the way to the first frame, and its libraries hold the loader's lock, for which other threads may wait.
    private static func load(_ factory: String) { _ = try? Element(factory: factory) }

    /// Posts the error because of which no session can start.
    private func refuse(_ problem: ElementProblem) {
        LogCategories.session(.warning, handle.unowned, "the session failed: \(problem.text)")
        handle.unowned.postError(problem)
    }

    /// Least latency, ns, to report with `timestamps=capture`; the measured delay may raise it.
    private static let captureLatency: ClockTime = 500_000_000

    /// Returns false if the process has no thread left for a session's queue; that one finds this thread waiting for work.
    static func hasThread() -> Bool { SerialQueue(label: "decart-session").start {} }

    static var noThread: SessionError {
        SessionError(
            .network,
            NetworkThread.areLost
                ? "The process was forked from one that had sessions, and has none of its threads. Fork before the first "
                    + "session, or call exec."
                : "The process has no thread or descriptor left for a session. Raise its limits.",
            stage: .configuration)
    }

    /// Checks the settings and prepares input, output and session; `begin` connects.
    private func start() -> Bool {
        guard let input, let output else { return false }
        let settings = settings
        let plan: SessionPlan
        do throws(SessionError) {
            plan = try SessionPlan(settings, hasKeyHandler: handle.unowned.hasHandler("request-api-key"))
            guard NetworkThread.shared.start(), Self.hasThread() else { throw Self.noThread }
            output.readDownstream()
            if output.encoding != nil, let conflict = settings.conflictWithEncodedOutput() {
                throw SessionError(.invalidOptions, conflict, stage: .configuration, isPermanent: true)
            }
        } catch {
            LogCategories.session(.warning, handle.unowned, "the session failed: \(error.message.asSentence)")
            fail(error)
            return false
        }
        prepare(input, output, plan, settings)
        let timing = settings.timestamps == .capture ? CaptureTiming(element: handle, output: output) : nil
        trackStats.begin()
        let host = MediaHost(
            element: handle, input: input, output: output, audio: audio, trackStats: trackStats, totals: totals,
            loggers: SessionLoggers(handle.unowned.name), timing: timing,
            onEncoder: { [weak self] in self?.encoderWasMade($0, followsBitrate: $1) },
            onTarget: { [weak self] in self?.steer($0) }, onOverload: { [weak self] in self?.report($0) })
        let session = ElementSession(
            plan: plan, host: host,
            requestKey: { [weak self] in self?.handle.unowned.emit("request-api-key")?.string },
            onChange: { [weak self] in self?.changed($0, $1) },
            onReport: { [weak self] in self?.report($0, $1) })
        let before = (input.gate.counters.framesIn, output.counters.received)
        let present = state.withLock {
            $0.run = Run(
                session: session, size: plan.size, timing: timing,
                watch: SessionWatch(resolution: settings.resolution == .fullHD && plan.doubts != nil),
                codecWarning: plan.codecWarning, doubts: plan.doubts,
                // A session without video would be one of the account's for nothing. Black frames need no input.
                input: InputPhase(
                    awaitsVideo: settings.session.autoConnect && settings.subscribeToken == nil
                        && settings.sending.takesVideo),
                sizes: settings.transport.kinds.map { plan.media(for: $0).format }, framesBefore: before)
            return $0.settings
        }
        // Another thread may have set properties since `settings` was copied: the plan lacks them, and no run took them.
        let late = TransformProperties.settings.changes(from: settings, to: present)
        for name in late { TransformProperties.settings.apply(name, to: self) }
        sendPrompts(late)
        // The plan contains no tracks.
        updatePublishedAudio()
        updatePublishedVideo()
        plan.warnings.forEach { warn($0) }
        if let note = plan.note { handle.unowned.postInfo(note) }
        if plan.subscribeToken == nil,
            handle.unowned.staticPad("sink")?.isBehind(["decarttransform", "decartsrc"]) == true
        {
            handle.unowned.postInfo(
                "The input is the output of another session, so two sessions run, and both are billed. Remove one of the "
                    + "elements if that is not meant.")
        }
        return true
    }

    private func prepare(_ input: InputChain, _ output: VideoOutput, _ plan: SessionPlan, _ settings: TransformSettings)
    {
        let size = plan.size
        audio.start(
            latency: settings.playoutLatency, playout: output.playout, isViewer: plan.subscribeToken != nil
        ) { [weak output] in
            output?.timeline ?? OutputTimeline()
        }
        input.gate.prepare()
        input.gate.setMaximumRate(framesPerSecond: plan.expected.video.framerate)
        input.configure(width: size.current.width, height: size.current.height, fit: settings.fit)
        // A viewer has no input that could decide the orientation.
        let follows = settings.orientation == .auto && plan.subscribeToken == nil
        output.configure {
            $0.preferred = OutputFormat(
                width: plan.output.width, height: plan.output.height, framerate: (plan.output.framerate, 1))
            $0.followsReceived = settings.outputSize == .received
            $0.latency = settings.playoutLatency
            $0.captureLatency = settings.timestamps == .capture ? Self.captureLatency : nil
            $0.waits = follows
        }
        output.set(keyframeInterval: settings.keyframeInterval)
        guard follows else { return }
        input.onShape { [weak self, weak input, weak output] isPortrait in
            // The application may have set `orientation` meanwhile.
            guard let settings = self?.settings, settings.orientation == .auto else { return }
            let (width, height) = size.current
            if isPortrait != (height > width) { size.set(width: height, height: width) }
            let now = size.current
            input?.configure(width: now.width, height: now.height, fit: settings.fit)
            output?.orient(portrait: now.height > now.width)
        }
    }

    private func begin() {
        applyFallback()
        applyMute()
        let now = now
        let session = now.run?.session
        input?.processing.start(now.settings.processor, element: handle)
        // Whoever waits for `audio_src`, as gst-launch-1.0 does, learns that it does not come.
        if !audio.isWanted { handle.unowned.noMorePads() }
        if let session { watchQuality(of: session) }
        if now.settings.session.autoConnect, now.run?.input.awaitsVideo == false { session?.controller.start() }
    }

    private func end() {
        let run = state.withLock { $0.run.take() }
        run?.session.stop()
        audio.stop()
        input?.processing.stop()
        input?.finishMuting()
        run?.fallback.raw?.remove()
    }

    // MARK: Interface for decartsrc

    /// With false, an input that sends no frames causes no warning.
    func set(expectsInput: Bool) { state.withLock { $0.expectsInput = expectsInput } }

    /// Sets the token of a session to watch from the next start on; nil: the element starts a session of its own.
    func setSubscribeToken(_ token: Secret?) { state.withLock { $0.settings.subscribeToken = token } }

    /// A copy of the settings, all of one moment.
    var settings: TransformSettings { now.settings }

    /// The codecs that an encoded input may have, by the property `codec` and by what downstream takes.
    var encodedCodecs: [VideoCodec] {
        let (settings, encoding) = (self.settings, output?.encoding)
        return [.h264, .vp8].filter {
            settings.conflict(withCodec: $0) == nil && encoding?.codecs.contains($0) ?? true
        }
    }

    /// Format that would be sent with the current settings; nil if they are incomplete.
    var plannedFormat: VideoFormat? { Self.plannedFormat(settings) }

    static func plannedFormat(_ settings: TransformSettings) -> VideoFormat? {
        (try? DecartModel(named: settings.model)).flatMap { try? SessionPlan.format(settings, $0) }
    }

    /// Size whose aspect ratio the frames are cropped to; nil if they are not cropped.
    var shape: (width: Int, height: Int)? {
        let settings = self.settings
        guard settings.fit == .crop else { return nil }
        return Self.plannedFormat(settings).map { ($0.width, $0.height) }
    }
}
