// The element's audio: the pads `audio_sink` and `audio_src`, and the frames between them and the media paths. The
// application enables audio by requesting `audio_sink`; without that pad, none of this exists. A viewer only receives.
package import GStreamerKit

// @unchecked: mutable state is locked, and no pad or element is touched while it is; `onEnd` is set before there is a pad.
package final class AudioTrack: @unchecked Sendable {
    /// Opened and closed by the media paths, even while there is no input.
    package let gate: InputGate
    private let element: ElementHandle
    /// Template of the input's pad.
    private let template: String
    private let log: DebugCategory

    private struct State {
        var input: AudioInput?
        /// An input is being created or removed.
        var isComing = false
        var output: AudioOutput?
        /// A thread adds or removes the output's pad, whose name is not free meanwhile.
        var isChanging = false
        /// Between start and stop: EOS of an input may come later.
        var isRunning = false
        /// The output is to go after its EOS.
        var isLeaving = false
        /// Audio is received although there is no input.
        var isViewer = false
        var isPlaying = false
        var isMuted = false
        var pace = AudioPace()
        /// Keyed by the media path.
        var deliveries: [PathID: @Sendable (AudioFrame) -> Void] = [:]
        /// Counters of removed outputs, which the next output continues.
        var counters = AudioOutputCounters()
    }
    private let state = StateLock(State())
    /// Called on upstream's thread when the input has ended. Set before the pad is requested.
    package var onEnd: @Sendable () -> Void = {}

    package init(
        element: ElementHandle, template: String = "audio_sink", pacing: InputPacing, log: DebugCategory
    ) {
        self.element = element
        self.template = template
        self.log = log
        gate = InputGate(pacing: pacing)
    }

    package var isWanted: Bool { state.read { $0.input != nil || $0.isViewer } }
    package var counters: AudioOutputCounters {
        let (output, past) = state.read { ($0.output, $0.counters) }
        return output?.counters ?? past
    }

    // MARK: The input

    /// The input is Opus, as far as it is known.
    var takesPackets: Bool { state.read(\.input)?.takesPackets ?? false }

    private static let needed = ["opusenc", "opusdec", "rtpopuspay", "rtpopusdepay"]
    private static let neededByViewers = ["opusdec", "rtpopusdepay"]

    /// Creates the input. Returns nil, with a warning in the log, if there is one already or if an Opus element is
    /// missing.
    package func request() -> Pad? {
        let mayCome = state.withLock { $0.input == nil && !exchange(&$0.isComing, with: true) }
        guard mayCome else {
            log(.warning, element.unowned, "\(template) exists already; the element has only one")
            return nil
        }
        defer { state.withLock { $0.isComing = false } }
        do throws(GStreamerError) {
            if let lacking = Self.needed.first(where: { !GStreamerRuntime.hasElement($0) }) {
                throw GStreamerError.missing(lacking)
            }
            gate.renew()
            let input = try AudioInput(
                in: element, template: template, gate: gate,
                pass: { [weak self] in self?.state.read(\.output)?.pass($0, $1) },
                onEnd: { [weak self] in self?.onEnd() },
                deliver: { [weak self] in self?.deliver($0) })
            state.withLock { $0.input = input }
            input.add(isActive: element.unowned.state() > .ready)
            return input.pad
        } catch {
            log(.warning, element.unowned, "no \(template): \(error.message)")
            return nil
        }
    }

    /// Removes the input. `hideIfUnwanted` removes the output later.
    package func release() {
        let input = state.withLock { state in
            // Blocks `request` until the removal is complete, because the gate serves one input at a time.
            if state.input != nil { state.isComing = true }
            return state.input.take()
        }
        guard let input else { return }
        input.remove()
        state.withLock { $0.isComing = false }
    }

    package func setMuted(_ isMuted: Bool) { state.withLock { $0.isMuted = isMuted } }

    func addDelivery(path: PathID, _ deliver: @escaping @Sendable (AudioFrame) -> Void) {
        state.withLock { $0.deliveries[path] = deliver }
    }
    func removeDelivery(path: PathID) { _ = state.withLock { $0.deliveries.removeValue(forKey: path) } }

    /// Runs on the input's streaming thread.
    private func deliver(_ frame: AudioFrame) {
        let (isMuted, deliveries) = state.read { ($0.isMuted, Array($0.deliveries.values)) }
        guard !deliveries.isEmpty else {
            gate.countUntaken()
            return
        }
        gate.countSent()
        var buffer = frame.buffer
        if isMuted { buffer = frame.packet.map(OpusPacket.silence) ?? .silence(bytes: frame.buffer.size) }
        let sent = AudioFrame(
            buffer: buffer, channels: frame.channels,
            runningTime: frame.runningTime ?? element.unowned.currentRunningTime, packet: frame.packet)
        for delivery in deliveries { delivery(sent) }
    }

    // MARK: The output

    /// The output is Opus; known once the pad is shown.
    var givesPackets: Bool { state.read(\.output)?.givesPackets ?? false }

    /// Called on the session's queue when the remote peer's audio has been negotiated. Creates the output pad once; it
    /// survives reconnects.
    package func show(as identity: StreamIdentity) {
        // The name of the pad must be free.
        if state.read(\.isLeaving) { hide() }
        let claim = state.withLock { state -> (pace: AudioPace, counters: AudioOutputCounters)? in
            guard state.isRunning, state.output == nil, !state.isChanging, state.input != nil || state.isViewer
            else { return nil }
            state.isChanging = true
            return (state.pace, state.counters)
        }
        guard let (pace, counters) = claim else { return }
        guard let pad = element.makePad(template: "audio_src") else {
            return state.adjust { $0.isChanging = false }
        }
        let output = AudioOutput(
            pad: pad, element: element, identity: identity, pace: pace, counters: counters, log: log)
        let isPlaying = state.withLock { state in
            state.output = output
            return state.isPlaying
        }
        output.set(playing: isPlaying)
        output.show()
        let isWanted = state.adjust { state in
            state.isChanging = false
            return state.isRunning && (state.input != nil || state.isViewer)
        }
        guard isWanted else { return hide() }
        element.unowned.noMorePads()
        // The pipeline must query the latency again, now that the pad may be linked.
        element.unowned.post(Message.latency(element.unowned))
    }

    /// Ends the output if `audio_sink` has been released, and removes it after EOS; on the session's queue.
    /// - Parameter perform: runs work on the session's queue after a time.
    package func hideIfUnwanted(_ perform: @escaping @Sendable (Duration, @escaping @Sendable () -> Void) -> Void) {
        guard !isWanted,
            let output = state.withLock({ state in
                state.isLeaving = state.output != nil
                return state.output
            })
        else { return }
        let hide = { @Sendable [weak self, weak output] in
            if let self, let output, self.state.read({ $0.output === output }) { self.hide() }
        }
        perform(output.finish { perform(.zero, hide) }, hide)
    }

    private func hide() {
        let (output, isLeaving) = state.withLock { state -> (AudioOutput?, Bool) in
            guard state.output != nil, !exchange(&state.isChanging, with: true) else { return (nil, false) }
            return (state.output, state.isLeaving)
        }
        guard let output else { return }
        output.remove(waits: !isLeaving && isWanted)
        let counters = output.counters
        state.withLock { state in
            (state.output, state.counters) = (nil, counters)
            (state.isLeaving, state.isChanging) = (false, false)
        }
    }

    func submit(_ buffer: Buffer, path: PathID) { state.read(\.output)?.submit(buffer, path: path) }
    /// Sends EOS after the queued audio.
    package func finish() { state.read(\.output)?.finish() }
    /// `audio_src` exists, and nothing is linked to it.
    package var isUnlinked: Bool { state.read(\.output).map { !$0.hasEnded && !$0.isLinked } ?? false }
    /// `audio_src` exists and has not ended.
    package var isGiving: Bool { state.read(\.output).map { !$0.hasEnded } ?? false }
    /// Audio of an input that is not live still comes, and leaves.
    package var goesOn: Bool {
        let (input, output) = state.read { ($0.input, $0.output) }
        guard let input, let output else { return false }
        return input.isComing && !gate.isLive && output.isLinked && !output.hasEnded
    }
    package func clockChanged() { gate.clockChanged() }
    package func resume() { state.read(\.output)?.resume() }

    // MARK: State changes

    /// Called in READY to PAUSED.
    /// - Parameters:
    ///   - latency: ns, from a packet's arrival to its playout; nil: that of `playout`.
    ///   - isViewer: nothing is sent, and audio is received if the elements for it are installed.
    ///   - line: returns the time line of the video output.
    package func start(
        latency: ClockTime?, playout: Playout, isViewer: Bool, line: @escaping @Sendable () -> OutputTimeline
    ) {
        let canHear = isViewer && Self.neededByViewers.allSatisfy(GStreamerRuntime.hasElement)
        let pace = AudioPace(line: line, latency: latency, playout: playout) { [weak gate] in
            !line().isCapture || gate?.isLive ?? true
        }
        state.withLock { ($0.pace, $0.isViewer, $0.isRunning) = (pace, canHear, true) }
        gate.prepare()
    }

    package func set(playing: Bool) {
        let output = state.withLock { state in
            state.isPlaying = playing
            return state.output
        }
        gate.set(playing: playing)
        output?.set(playing: playing)
    }

    /// Called in PAUSED to READY, before pads are deactivated: unblocks an upstream thread that waits in the gate.
    package func willStop() { gate.stop() }

    /// Called after the session has ended.
    package func stop() {
        state.adjust { $0.isRunning = false }
        hide()
    }

    /// Called in PAUSED to READY, after the parent class.
    package func reset() {
        gate.reset()
    }
}
