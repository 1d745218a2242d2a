// The element's sound: the pads `audio_sink` and `audio_src`, and what goes between them and the media paths. Without the
// first one there is nothing of all this.
import GStreamerKit
import Synchronization

// @unchecked: what changes is in the mutex, and no pad or element is touched while it is held.
final class AudioTrack: @unchecked Sendable {
    /// Opens and closes with the media paths, whether there is an input or not.
    let gate: InputGate
    private let element: ElementHandle
    private let log: DebugCategory

    private struct State {
        var input: AudioInput?
        /// One is being made, or removed.
        var isComing = false
        var output: AudioOutput?
        var isPlaying = false
        var isMuted = false
        var latency: ClockTime = 0
        var pace = AudioPace()
        /// By the rank of the media path.
        var deliveries: [Int: @Sendable (AudioFrame) -> Void] = [:]
        /// Of outputs that have gone.
        var counters = AudioOutputCounters()
    }
    private let state = Mutex(State())

    init(element: ElementHandle, pacing: InputPacing, log: DebugCategory) {
        self.element = element
        self.log = log
        gate = InputGate(pacing: pacing)
    }

    var isWanted: Bool { state.withLock { $0.input != nil } }
    var counters: AudioOutputCounters {
        let (output, past) = state.withLock { ($0.output, $0.counters) }
        return output?.counters ?? past
    }

    // MARK: The input

    private static let needed = ["opusenc", "opusdec", "rtpopuspay", "rtpopusdepay"]

    /// nil, and why in the log, where there can be none.
    func request() -> Pad? {
        let mayCome = state.withLock { state in
            guard state.input == nil, !state.isComing else { return false }
            state.isComing = true
            return true
        }
        guard mayCome else {
            log(.warning, element.unowned, "there is an audio_sink already, and one is all there can be")
            return nil
        }
        defer { state.withLock { $0.isComing = false } }
        do throws(GStreamerError) {
            if let lacking = Self.needed.first(where: { !GStreamerRuntime.hasElement($0) }) {
                throw GStreamerError(.missingElement(lacking), "the GStreamer element '\(lacking)' is not installed")
            }
            gate.renew()
            let input = try AudioInput(
                in: element, gate: gate, onTag: { [weak self] in self?.state.withLock(\.output)?.forward($0) },
                deliver: { [weak self] in self?.deliver($0) })
            state.withLock { $0.input = input }
            input.add(isActive: element.unowned.state() > .ready)
            return input.pad
        } catch {
            log(.warning, element.unowned, "no audio_sink: \(error.message)")
            return nil
        }
    }

    /// The output is left to `hide`.
    func release() {
        let input = state.withLock { state in
            defer { state.input = nil }
            // The gate serves one input at a time: another may come when this one is gone.
            if state.input != nil { state.isComing = true }
            return state.input
        }
        guard let input else { return }
        input.remove()
        state.withLock { $0.isComing = false }
    }

    func setMuted(_ isMuted: Bool) { state.withLock { $0.isMuted = isMuted } }

    func addDelivery(rank: Int, _ deliver: @escaping @Sendable (AudioFrame) -> Void) {
        state.withLock { $0.deliveries[rank] = deliver }
    }
    func removeDelivery(rank: Int) { _ = state.withLock { $0.deliveries.removeValue(forKey: rank) } }

    /// The input's thread.
    private func deliver(_ frame: AudioFrame) {
        let (isMuted, deliveries) = state.withLock { ($0.isMuted, Array($0.deliveries.values)) }
        guard !deliveries.isEmpty else {
            gate.countDropped()
            return
        }
        gate.countSent()
        let sent = AudioFrame(
            buffer: isMuted ? .silence(bytes: frame.buffer.size) : frame.buffer, channels: frame.channels,
            runningTime: frame.runningTime ?? element.unowned.currentRunningTime)
        for delivery in deliveries { delivery(sent) }
    }

    // MARK: The output

    /// The far side's sound is negotiated; the session's queue. The pad is made once, and stays over reconnects.
    func show(as identity: StreamIdentity) {
        let (isNew, latency, pace, counters) = state.withLock {
            ($0.output == nil && $0.input != nil, $0.latency, $0.pace, $0.counters)
        }
        guard isNew, let pad = element.makePad(template: "audio_src") else { return }
        let output = AudioOutput(
            pad: pad, element: element, identity: identity, latency: latency, pace: pace, counters: counters,
            log: log)
        let isPlaying = state.withLock { state in
            state.output = output
            return state.isPlaying
        }
        output.set(playing: isPlaying)
        output.show()
        // Whoever has linked the pad is to wait for it.
        element.unowned.post(Message.latency(element.unowned))
    }

    /// Where `audio_sink` has gone; the session's queue.
    func hideIfUnwanted() { if !isWanted { hide(isStopping: false) } }

    private func hide(isStopping: Bool) {
        let output = state.withLock { state in
            defer { state.output = nil }
            return state.output
        }
        guard let output else { return }
        output.remove(isStopping: isStopping)
        state.withLock { $0.counters = output.counters }
    }

    func submit(_ buffer: Buffer, rank: Int) { state.withLock(\.output)?.submit(buffer, rank: rank) }
    func finish() { state.withLock(\.output)?.finish() }

    // MARK: With the element's states

    /// READY to PAUSED.
    /// - Parameter line: the pictures'.
    func start(latency: ClockTime, line: @escaping @Sendable () -> OutputTimeline) {
        let pace = AudioPace(line: line) { [weak gate] in !line().isCapture || gate?.isLive ?? true }
        state.withLock { ($0.latency, $0.pace) = (latency, pace) }
        gate.prepare()
    }

    func set(playing: Bool) {
        let output = state.withLock { state in
            state.isPlaying = playing
            return state.output
        }
        gate.set(playing: playing)
        output?.set(playing: playing)
    }

    /// PAUSED to READY: nobody upstream waits any longer.
    func willStop() { gate.stop() }

    /// After the session's end.
    func stop() { hide(isStopping: true) }

    /// And after the parent class.
    func reset() {
        gate.reset()
        state.withLock { $0.counters = AudioOutputCounters() }
    }
}
