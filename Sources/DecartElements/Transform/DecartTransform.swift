// `decarttransform`: sends raw video through one session with the service and outputs the transformed video.
//
// Locks: in this file none is held while another is taken, except that `state` is held while `InputChain.reset` takes
// its own. Nothing is emitted, posted or set under a lock.
import DecartProtocol
import DecartSession
import Dispatch
import GStreamerKit
import MediaSecurity
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
            PadTemplate(name: "audio_sink", direction: .sink, presence: .request, caps: AudioInput.caps),
            PadTemplate(name: "audio_src", direction: .source, presence: .sometimes, caps: AudioFormat.returnedCaps),
        ],
        properties: TransformProperties.specs,
        signals: TransformProperties.signals,
        make: { DecartTransform($0) })

    private static let log = DebugCategory("decarttransform", "Decart realtime video transform")

    // MARK: Settings and state

    private struct State {
        var settings = TransformSettings()
        /// Properties of the prompt that a g_object_set has set and not yet notified.
        var changedPromptProperties: Set<String> = []
        var session: ElementSession?
        var snapshot = SessionSnapshot()
        var input: InputChain?
        var output: VideoOutput?
        /// New at each start.
        var facts = VideoTrackStats()
        /// Size of the frames that are sent; nil before the first start.
        var size: CurrentFrameSize?
        /// Posted once if the service turns out to use LiveKit.
        var codecWarning: String?
        /// Limits the warning about the encoder to one per start; a session may make several encoders.
        var hasWarnedOfEncoder = false
        var timing: CaptureTiming?
        var rawFallback: RawFallback?
        /// Error from building the children, posted when the element goes to READY.
        var buildError: GStreamerError?
        /// Orientation tags of the input, in front of the queue.
        var tags = TaggedOrientation()
        /// Set by the first EOS, cleared in READY.
        var draining = false
        /// Time of the last QOS message.
        var lostAt: Duration?
    }
    private let state = Mutex(State())
    private let handle: ElementHandle
    private let statisticsTimer = PeriodicTimer("decart-statistics")
    private let audio: AudioTrack

    // MARK: Pads

    private init(_ handle: ElementHandle) {
        self.handle = handle
        let pacing = InputPacing()
        audio = AudioTrack(element: handle, pacing: pacing, log: Self.log)
        let bin = handle.unowned
        bin.suppressSourceAndSinkFlags()
        if let source = handle.makePad(template: "src") {
            let output = VideoOutput(pad: source, element: handle, log: Self.log)
            state.withLock { $0.output = output }
            bin.add(source)
        }
        guard let sink = handle.makeGhostPad(template: "sink") else { return }
        do {
            let input = try InputChain(pacing: pacing)
            let target = try input.install(in: bin)
            sink.setTarget(target)
            bin.add(sink)
            input.onOverrun { [weak self, weak input] in
                input?.gate.countDropped()
                self?.reportLoss(of: nil)
            }
            guardInput(sink, target, input)
            state.withLock { $0.input = input }
        } catch {
            bin.add(sink)
            state.withLock { $0.buildError = error }
        }
    }

    func requestPad(template: String) -> Pad? {
        guard template == "audio_sink", let pad = audio.request() else { return nil }
        updatePublishedAudio()
        return pad
    }

    /// Turns the session's audio on while `audio_sink` exists and `publish-audio` is set.
    private func updatePublishedAudio() {
        let (session, isPublished) = state.withLock { ($0.session, $0.settings.publishAudio) }
        session?.setAudio(isPublished && audio.isWanted)
    }

    private func updatePublishedVideo() {
        let (session, isPublished) = state.withLock { ($0.session, $0.settings.publishVideo) }
        session?.setVideoPublished(isPublished)
    }

    /// Removes `audio_src`, after its EOS, on the session's queue, behind the work that stops the session's audio.
    func releasePad(_ pad: Pad) {
        audio.release()
        updatePublishedAudio()
        state.withLock(\.session)?.async { [weak self] in self?.audio.hideIfUnwanted() }
    }

    private func guardInput(_ sink: Pad, _ target: Pad, _ input: InputChain) {
        // The closure retains the queue's pad and holds its own pad unretained, to avoid a cycle.
        let own = sink.unowned
        sink.addProbe([.buffer, .downstreamEvent, .flushEvent]) { [weak self, weak input, own, target] item in
            guard let self, let input else { return .drop }
            switch item {
            case .buffer(let buffer):
                input.frameArrived()
                switch input.gate.admit(buffer, pad: own, element: self.handle.unowned) {
                case .passes: return .pass
                case .refused: return .drop
                case .dropped:
                    self.reportLoss(of: buffer)
                    return .drop
                }
            case .event(let event): return self.takeInput(event, input, queue: target)
            case .query: return .pass
            }
        }
    }

    /// Called on upstream's streaming thread.
    private func takeInput(_ event: Event, _ input: InputChain, queue: Pad) -> ProbeVerdict {
        input.arrived(event)
        switch event.kind {
        case .segment: input.gate.take(segment: event)
        case .flushStart: input.gate.set(flushing: true)
        case .flushStop:
            guard !input.gate.isLeaving else { return .drop }
            input.gate.set(flushing: false)
        case .streamStart: apply(takeTags(event), to: input, queue)
        case .tag:
            apply(takeTags(event), to: input, queue)
            guard event.imageOrientationTag != nil else {
                state.withLock(\.output)?.forward(event)
                return .pass
            }
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

    /// Returns the rotation that the tags ask for if it has changed: a new upstream source brings other tags, or none.
    private func takeTags(_ event: Event) -> ImageRotation? {
        state.withLock { state in
            let before = state.tags.current
            state.tags.update(event)
            return state.tags.current == before ? nil : state.tags.current
        }
    }

    private func apply(_ rotation: ImageRotation?, to input: InputChain, _ queue: Pad) {
        guard let rotation else { return }
        input.arrived(rotation)
        // A custom event carries the rotation through the queue, in order with the frames.
        let structure = Structure(ImageRotation.eventName)
        structure["rotation"] = GValueBox(rotation.rawValue)
        queue.send(Event.customDownstream(structure))
    }

    /// Posts a QOS message for a dropped frame of a live input: the first at once, then at most five per second,
    /// because a wait in the service's queue may last long. Each message carries the totals so far.
    /// - Parameter frame: nil if the queue does not report which frame it dropped.
    private func reportLoss(of frame: Buffer?) {
        let now = MonotonicTime.now
        let input = state.withLock { state -> InputChain? in
            if let last = state.lostAt, now - last < .milliseconds(200) { return nil }
            state.lostAt = now
            return state.input
        }
        guard let input else { return }
        let (element, counters) = (handle.unowned, input.gate.counters)
        element.post(
            Message.qos(
                element, runningTime: frame.map { input.gate.runningTime(of: $0) } ?? element.currentRunningTime,
                timestamp: frame?.pts, duration: frame?.duration, processed: counters.framesSent,
                dropped: counters.framesDropped))
    }

    // MARK: Properties

    func setProperty(_ name: String, _ value: GValueBox) {
        state.withLock {
            TransformProperties.settings.set(name, value, in: &$0.settings)
            if TransformProperties.promptProperties.contains(name) { $0.changedPromptProperties.insert(name) }
        }
        switch name {
        case "fit": applyGeometry()
        case "orientation": applyOrientation()
        case "fallback": applyFallback()
        case "mute-video": applyMute()
        case "mute-audio": audio.setMuted(value.bool ?? false)
        case "publish-audio": updatePublishedAudio()
        case "publish-video": updatePublishedVideo()
        case "processor":
            let (text, input, isRunning) = state.withLock { ($0.settings.processor, $0.input, $0.session != nil) }
            if isRunning { input?.processing.change(to: text) }
        case "statistics-interval": applyStatisticsInterval()
        case "max-session-duration":
            let (session, limit) = state.withLock { ($0.session, $0.settings.maximumDuration) }
            session?.controller.limit(to: limit)
        default: break
        }
    }

    func property(_ name: String) -> GValueBox? {
        switch name {
        case "stats": return GValueBox(structure: statistics())
        default:
            return state.withLock {
                TransformProperties.settings.value(name, in: $0.settings)
                    ?? SessionSnapshot.properties.value(name, in: $0.snapshot)
            }
        }
    }

    /// Sends all prompt properties of one g_object_set as one update. An action signal has sent its own update.
    func propertiesChanged(_ names: [String]) {
        let (changed, session, settings) = state.withLock { state in
            defer { state.changedPromptProperties.subtract(names) }
            return (state.changedPromptProperties.intersection(names), state.session, state.settings)
        }
        guard !changed.isEmpty else { return }
        session?.async { [weak self] in self?.update(settings, changed, session) }
    }

    private func statistics() -> Structure {
        let (input, output, snapshot, session, timing) = state.withLock {
            ($0.input, $0.output, $0.snapshot, $0.session, $0.timing)
        }
        let transport = session?.statistics
        let stats = TransformStatistics.structure(
            input: input?.gate.counters ?? InputCounters(), processor: input?.processing.condition ?? .none,
            output: output?.counters ?? OutputCounters(),
            audio: (audio.gate.counters, audio.counters), snapshot: session == nil ? nil : snapshot,
            transport: transport,
            receivedSize: session?.receivedSize, glassToGlassTime: timing?.glassToGlassTime)
        let (facts, label) = state.withLock { ($0.facts, $0.settings.trackLabel) }
        let (publication, sid) = session?.publication ?? (.none, nil)
        facts.write(to: stats, label, publication, sid: sid, bytes: transport?.bytesSent)
        stats["track-layers"] = GValueBox((session?.sentLayers ?? []).joined(separator: " "))
        return stats
    }

    /// Runs on the session's queue because it reads the image from a file.
    private func update(_ settings: TransformSettings, _ changed: Set<String>, _ session: ElementSession?) {
        do throws(ProtocolError) {
            var update = PromptUpdate()
            if !changed.isDisjoint(with: ["prompt", "enrich"]) {
                update.prompt = try Prompt(settings.prompt, enrich: settings.enrich)
            }
            if changed.contains("reference-image") {
                let model = try DecartModel(named: settings.model)
                update.image = .removed
                if let source = settings.referenceImage { update.image = .set(try source.image(for: model)) }
            }
            session?.controller.updatePrompt(update)
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
        }
    }

    // MARK: Action signals

    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? {
        let session = state.withLock(\.session)
        switch name {
        case "set-prompt":
            guard arguments.count == 2 else { return nil }
            return GValueBox(uint64: setPrompt(arguments[0].string ?? "", enrich: arguments[1].bool ?? false, session))
        case "set-image":
            guard arguments.count == 3 else { return nil }
            return GValueBox(
                uint64: setImage(arguments[0].bytes, arguments[1].string, enrich: arguments[2].bool ?? false, session))
        case "connect": session?.controller.start()
        case "disconnect": session?.controller.stop()
        case "extend-session":
            if let seconds = arguments.first?.int { session?.controller.extend(by: .seconds(seconds)) }
        default: break
        }
        return nil
    }

    /// Returns the request's ID; 0 without a session, or if the prompt is invalid, which also posts a warning.
    private func setPrompt(_ text: String, enrich: Bool, _ session: ElementSession?) -> RequestID {
        do throws(ProtocolError) {
            return request(PromptUpdate(prompt: try Prompt(text, enrich: enrich)), session) {
                ($0.prompt, $0.enrich) = (text, enrich)
            }
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
            return 0
        }
    }

    /// Removes the image if there are no bytes. A NULL text leaves the prompt as it is. Returns as `setPrompt` does.
    private func setImage(_ bytes: [UInt8]?, _ text: String?, enrich: Bool, _ session: ElementSession?) -> RequestID {
        do throws(ProtocolError) {
            var update = PromptUpdate(image: .removed)
            let source = bytes.flatMap { $0.isEmpty ? nil : ReferenceImageSource.memory($0) }
            if let source {
                update.image = .set(try source.image(for: DecartModel(named: state.withLock(\.settings.model))))
            }
            if let text { update.prompt = try Prompt(text, enrich: enrich) }
            return request(update, session) {
                $0.referenceImage = source
                if let text { ($0.prompt, $0.enrich) = (text, enrich) }
            }
        } catch {
            warn(SessionError(error.code, error.message, stage: .configuration))
            return 0
        }
    }

    /// Stores an action signal's change in the settings, so that it also applies to the next start, and sends it.
    private func request(
        _ update: PromptUpdate, _ session: ElementSession?, _ change: (inout TransformSettings) -> Void
    ) -> RequestID {
        state.withLock { change(&$0.settings) }
        let id = session?.controller.updatePrompt(update) ?? 0
        handle.unowned.withFrozenNotifications { element in
            if update.prompt != nil { ["prompt", "enrich"].forEach(element.notify) }
            if update.image != .unchanged { element.notify("reference-image") }
        }
        return id
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
                stopInputs()
                end()
                return result
            }
            begin()
            return .noPreroll
        case .pausedToPlaying:
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
            state.withLock { state in
                state.input?.reset()
                state.snapshot = SessionSnapshot()
                state.draining = false
                state.tags = TaggedOrientation()
            }
            return result
        case .readyToNull, .other: return chainUp()
        }
    }

    /// Wakes the streaming threads that wait in the element and refuses what follows, so that the pads can be
    /// deactivated.
    private func stopInputs() {
        state.withLock(\.input)?.gate.stop()
        audio.willStop()
    }

    private func setPlaying(_ playing: Bool) {
        let (input, output) = state.withLock { ($0.input, $0.output) }
        input?.gate.set(playing: playing)
        input?.processing.rest()
        output?.set(playing: playing)
        audio.set(playing: playing)
    }

    private func checkInstallation() -> Bool {
        let (error, settings) = state.withLock { ($0.buildError, $0.settings) }
        if let error {
            handle.unowned.postError(Self.missing(error.message))
            return false
        }
        let codecs = settings.videoCodecs
        let needed =
            ["rtpbin", "capssetter", "rtprtxsend", "rtprtxreceive"] + codecs.flatMap { [$0.payloader, $0.depayloader] }
        if let lacking = needed.first(where: { !GStreamerRuntime.hasElement($0) }) {
            handle.unowned.postError(Self.missing("'\(lacking)'"))
            return false
        }
        let sends = settings.subscribeToken == nil
        let lacking = codecs.first {
            $0.installedDecoder == nil || ($0.installedEncoder == nil && settings.encoder.isEmpty && sends)
        }
        if let codec = lacking {
            handle.unowned.postError(
                Self.missing(
                    "\(codec.encodingName) needs an encoder (\(codec.encoders.joined(separator: " or "))) "
                        + "and a decoder (\(codec.decoders.joined(separator: " or ")))"))
            return false
        }
        if let warning = securityWarning { Self.log(.warning, handle.unowned, warning) }
        return true
    }

    private static func missing(_ what: String) -> ElementProblem {
        ElementProblem(
            .coreMissingPlugin, "A GStreamer element is missing: \(what). Install the package that contains it.")
    }

    /// Checks the settings and prepares input, output and session; `begin` connects.
    private func start() -> Bool {
        let (settings, input, output) = state.withLock { ($0.settings, $0.input, $0.output) }
        guard let input, let output else { return false }
        let plan: SessionPlan
        do throws(SessionError) {
            plan = try SessionPlan(settings, hasKeyHandler: handle.unowned.hasHandler("request-api-key"))
        } catch {
            handle.unowned.postError(ElementProblem(error, sessionID: nil))
            return false
        }
        prepare(input, output, plan, settings)
        let timing = settings.timestamps == .capture ? CaptureTiming(element: handle, output: output) : nil
        let facts = VideoTrackStats()
        let host = MediaHost(
            element: handle, input: input, output: output, audio: audio, facts: facts, log: Self.log, timing: timing,
            onEncoder: { [weak self] in self?.encoderWasMade($0) })
        let session = ElementSession(
            plan: plan, host: host,
            requestKey: { [weak self] in self?.handle.unowned.emit("request-api-key")?.string },
            onChange: { [weak self] in self?.changed($0, $1) },
            onReport: { [weak self] in self?.report($0, $1) })
        state.withLock {
            $0.session = session
            $0.timing = timing
            $0.facts = facts
            $0.size = plan.size
            $0.codecWarning = plan.codecWarning
            $0.hasWarnedOfEncoder = false
        }
        // Both properties may have changed meanwhile; any change from here on finds the session.
        updatePublishedAudio()
        updatePublishedVideo()
        if let warning = plan.viewerWarning { warn(SessionError(.invalidInput, warning, stage: .configuration)) }
        return true
    }

    /// Called on the session's queue.
    private func encoderWasMade(_ encoder: Element) {
        handle.unowned.emit("encoder-setup", [GValueBox(object: encoder)])
        guard !VideoEncoderBin.followsBitrate(encoder) else { return }
        let description = state.withLock { state -> String? in
            defer { state.hasWarnedOfEncoder = true }
            return state.hasWarnedOfEncoder ? nil : state.settings.encoder
        }
        guard let description else { return }
        warn(
            SessionError(
                .invalidOptions,
                "The encoder '\(description)' ignores the bitrate target and may send more than the network carries. "
                    + "Use one of \(VideoEncoderBin.followingEncoders.joined(separator: ", ")), "
                    + "or set its bitrate in the property encoder.", stage: .configuration))
    }

    private func prepare(_ input: InputChain, _ output: VideoOutput, _ plan: SessionPlan, _ settings: TransformSettings)
    {
        let size = plan.size
        audio.start(latency: UInt64(settings.latency) &* 1_000_000) { [weak output] in
            output?.timeline ?? OutputTimeline()
        }
        input.gate.prepare()
        input.gate.setMaximumRate(framesPerSecond: plan.expected.framerate)
        input.configure(width: plan.output.width, height: plan.output.height, fit: settings.fit)
        // A viewer has no input that could decide the orientation.
        let follows = settings.orientation == .auto && plan.subscribeToken == nil
        output.configure(
            OutputFormat(width: plan.output.width, height: plan.output.height, framerate: (plan.output.framerate, 1)),
            followsReceived: settings.outputSize == .received, latency: UInt64(settings.latency) &* 1_000_000,
            captureLatency: settings.timestamps == .capture ? UInt64(settings.minLatency) &* 1_000_000 : nil,
            waits: follows)
        output.onFill { [weak input] in input?.gate.isLive ?? true }
        guard follows else { return }
        input.onShape { [weak self, weak input, weak output] isPortrait in
            // The application may have set `orientation` meanwhile.
            if self?.state.withLock(\.settings.orientation) != .auto { return }
            let (width, height) = size.current
            if isPortrait != (height > width) { size.set(width: height, height: width) }
            let now = size.current
            if let fit = self?.state.withLock(\.settings.fit) {
                input?.configure(width: now.width, height: now.height, fit: fit)
            }
            output?.prefer(width: now.width, height: now.height)
        }
    }

    private func begin() {
        applyFallback()
        applyMute()
        applyStatisticsInterval()
        let (session, connects, input, processor) = state.withLock {
            ($0.session, $0.settings.autoConnect, $0.input, $0.settings.processor)
        }
        input?.processing.start(processor, element: handle)
        if connects { session?.controller.start() }
    }

    private func end() {
        let session = state.withLock { state in
            defer { (state.session, state.timing) = (nil, nil) }
            return state.session
        }
        session?.stop()
        audio.stop()
        statisticsTimer.finish()
        let input = state.withLock(\.input)
        input?.processing.stop()
        input?.finishMuting()
        let raw = state.withLock { state in
            defer { state.rawFallback = nil }
            return state.rawFallback
        }
        raw?.remove()
    }

    /// Applies only while the element runs. `passthrough` needs a branch for raw frames, which is built on demand.
    private func applyFallback() {
        let (fallback, input, output, raw, running) = state.withLock {
            ($0.settings.fallback, $0.input, $0.output, $0.rawFallback, $0.session != nil)
        }
        guard running, let input, let output else { return }
        output.set(fallback: fallback)
        if fallback == .passthrough, raw == nil {
            do throws(GStreamerError) {
                let made = try RawFallback(element: handle, input: input, output: output)
                state.withLock { $0.rawFallback = made }
            } catch { handle.unowned.postWarning(Self.missing(error.message)) }
        } else if fallback != .passthrough, let raw {
            state.withLock { $0.rawFallback = nil }
            raw.remove()
        }
    }

    /// Applies only while the element runs, as does `applyStatisticsInterval`.
    private func applyMute() {
        let (isMuted, input, isRunning) = state.withLock { ($0.settings.muteVideo, $0.input, $0.session != nil) }
        if isRunning { input?.setMuted(isMuted, element: handle) }
    }

    private func applyStatisticsInterval() {
        let (interval, isRunning) = state.withLock { ($0.settings.statisticsInterval, $0.session != nil) }
        guard isRunning, interval > 0 else { return statisticsTimer.stop() }
        statisticsTimer.start(every: interval) { [weak self] in
            // The element still exists while `session` is set: `end` clears it and then waits for this handler.
            guard let self, self.state.withLock({ $0.session != nil }) else { return }
            let element = self.handle.retained
            element.post(Message.element(element, self.statistics()))
        }
    }

    private func applyGeometry() {
        let (fit, input, size) = state.withLock { ($0.settings.fit, $0.input, $0.size) }
        guard let input, let size else { return }
        input.configure(width: size.current.width, height: size.current.height, fit: fit)
    }

    /// Turns the sent frames, and so the returned ones, without a new session.
    private func applyOrientation() {
        let (settings, input, output, size, running) = state.withLock {
            ($0.settings, $0.input, $0.output, $0.size, $0.session != nil)
        }
        guard running, settings.orientation != .auto, let input, let output, let size else { return }
        let now = size.current
        if (now.height > now.width) != (settings.orientation == .portrait) {
            size.set(width: now.height, height: now.width)
        }
        input.configure(width: size.current.width, height: size.current.height, fit: settings.fit)
        output.prefer(width: size.current.width, height: size.current.height)
    }

    // MARK: Interface for decartsrc

    /// Sets the token of a session to watch from the next start on; nil: the element starts a session of its own.
    func setSubscribeToken(_ token: Secret?) { state.withLock { $0.settings.subscribeToken = token } }

    /// Format that would be sent with the current settings; nil if they are incomplete.
    var plannedFormat: VideoFormat? {
        let settings = state.withLock(\.settings)
        return (try? DecartModel(named: settings.model)).flatMap { try? SessionPlan.format(settings, $0) }
    }

    /// Size whose aspect ratio the frames are cropped to; nil if they are not cropped.
    var shape: (width: Int, height: Int)? {
        guard state.withLock(\.settings.fit) == .crop else { return nil }
        return plannedFormat.map { ($0.width, $0.height) }
    }

    // MARK: Session callbacks (on its queue, which retains the element meanwhile)

    private func changed(_ snapshot: SessionSnapshot, _ reporter: SessionReporter) {
        let before = state.withLock { state in
            defer { state.snapshot = snapshot }
            return state.snapshot
        }
        let changes = snapshot.changes(since: before)
        let element = handle.unowned
        if snapshot.transport == .livekit, let warning = takeCodecWarning() {
            warn(SessionError(.invalidOptions, warning, stage: .media))
        }
        if before.state != snapshot.state { Self.log(.info, element, "session is \(snapshot.state.rawValue)") }
        // The application may end the session in each of these calls.
        for name in changes where !reporter.isSilent { element.notify(name) }
        guard !reporter.isSilent else { return }
        if !changes.isEmpty || before.retries != snapshot.retries || before.lastError != snapshot.lastError {
            element.post(Message.element(element, SessionMessages.state(snapshot)))
        }
        if let (progress, text) = SessionMessages.progress(from: before, to: snapshot), !reporter.isSilent {
            element.post(Message.progress(element, progress, code: "connect", text: text))
        }
    }

    private func takeCodecWarning() -> String? {
        state.withLock { state in
            defer { state.codecWarning = nil }
            return state.codecWarning
        }
    }

    private func report(_ report: SessionReport, _ reporter: SessionReporter) {
        switch report {
        case .failed(let error):
            let id = state.withLock(\.snapshot.sessionID)
            handle.unowned.postError(ElementProblem(error, sessionID: id))
        case .warning(let error): warn(error)
        case .promptResult(let result): post(result, reporter)
        case .ending(let left):
            let element = handle.unowned
            element.post(Message.element(element, SessionMessages.ending(left: left)))
        case .note(let text): Self.log(.debug, handle.unowned, text)
        case .transportDetected: break
        }
    }

    private func post(_ result: PromptResult, _ reporter: SessionReporter) {
        let element = handle.unowned
        for name in SessionMessages.promptResultNames {
            element.post(Message.element(element, SessionMessages.promptResult(result, name: name)))
        }
        guard !reporter.isSilent else { return }
        element.emit(
            "prompt-result",
            [
                GValueBox(uint64: result.id), GValueBox(result.text), GValueBox(result.isAccepted),
                GValueBox(result.error),
                GValueBox(uint: SessionMessages.milliseconds(result)),
            ])
        if let error = result.error, !reporter.isSilent {
            warn(SessionError(.processing, "The prompt was not accepted: \(error)", stage: .generation))
        }
    }

    private func warn(_ error: SessionError) {
        handle.unowned.postWarning(ElementProblem(error, sessionID: state.withLock(\.snapshot.sessionID)))
    }

    // MARK: Events and messages

    /// Keeps a child's error from the pipeline if the session can handle it.
    ///
    /// Drops the children's STATE_CHANGED messages: there are dozens at each start, no application needs them, and
    /// before GStreamer 1.26 a bus can lose a message, and leak the element that it references, while more than 32
    /// wait. Drops their LATENCY messages, which change nothing for the pipeline: the source pads answer latency
    /// queries themselves and post a message when their answer changes.
    func handleMessage(_ message: Message) -> Message? {
        let (session, input) = state.withLock { ($0.session, $0.input) }
        switch message.kind {
        case .eos, .stateChanged, .latency: return nil
        case .error, .warning:
            let isTaken = input?.processing.claims(message) == true || session?.claims(message) == true
            return isTaken ? nil : message
        default: return message
        }
    }

    func sendEvent(_ event: Event) -> Bool? {
        guard event.kind == .eos else { return nil }
        drain()
        return true
    }

    /// Waits about a second at most for frames that are still in flight; without a connected session, not at all.
    private func drain() {
        let (session, output, first) = state.withLock { state in
            defer { state.draining = true }
            return (state.session, state.output, !state.draining)
        }
        guard first else { return }
        guard let session, state.withLock(\.snapshot.state.isConnected) else {
            finish()
            session?.controller.stop()
            return
        }
        drainStep(session, output, left: 10, last: output?.counters.received ?? 0)
    }

    /// Checks up to ten times, after 200 ms and then every 100 ms, and ends once no frame came between two checks.
    private func drainStep(_ session: ElementSession, _ output: VideoOutput?, left: Int, last: UInt64) {
        session.after(.milliseconds(left == 10 ? 200 : 100)) { [weak self] in
            let now = output?.counters.received ?? 0
            if left > 1, now != last {
                self?.drainStep(session, output, left: left - 1, last: now)
            } else {
                self?.finish()
                session.controller.stop()
            }
        }
    }

    private func finish() {
        state.withLock(\.output)?.finish()
        audio.finish()
    }
}
