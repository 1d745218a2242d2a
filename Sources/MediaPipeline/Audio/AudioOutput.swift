// The pad `audio_src` and the one streaming thread that pushes from it: a stream of samples without a gap, whatever the
// network does. Decoded audio is queued here and never blocks the decoder. Where audio is missing, the thread pushes
// silence as soon as the jitter buffer cannot deliver the packet in time any more. If downstream takes Opus and no
// samples, packets leave, and GAP events stand in for missing ones.
import GStreamerKit
import RTP
import WebRTCTransport

package struct AudioOutputCounters: Sendable {
    package var received: UInt64 = 0
    package var pushed: UInt64 = 0
    /// Pushed buffers that are silence, inserted here.
    package var silence: UInt64 = 0
    /// Buffers dropped because downstream was busy and the queue full, or because silence had been pushed in their
    /// place.
    package var late: UInt64 = 0
}

/// Timing for audio: the time line of the video output, so that both streams are shifted alike.
struct AudioPace: Sendable {
    var line: @Sendable () -> OutputTimeline = { OutputTimeline() }
    /// ns, from a packet's arrival to its playout; nil: it adapts.
    var latency: ClockTime?
    var playout = Playout()
    /// False if the input's time line stands still while there is no session: silence would take the place of audio
    /// that the input delivers later.
    var mayFill: @Sendable () -> Bool = { true }
}

final class AudioOutput: Sendable {
    private let source: LiveSourcePad
    private let element: ElementHandle
    private let identity: StreamIdentity
    private let pace: AudioPace

    private struct State {
        var chunks: [(buffer: Buffer, duration: ClockTime)] = []
        var events: [Event] = []
        /// The element has the pad, so `pad-added` handlers have linked it.
        var isShown = false
        /// Set if Opus packets leave.
        var packetCaps: String?
        var isActive = false
        var isPlaying = false
        var isAnnounced = false
        var isEnding = false
        var hasEnded = false
        /// Called when nothing is pushed any longer.
        var onEnd: @Sendable () -> Void = {}
        let latency: ClockTime?
        let playout: Playout
        var delay = AudioDelay()
        var clock = RunningClock()
        /// Running time of the next sample to push.
        var next: ClockTime?
        /// Downstream can take the stream, so that it begins.
        var hasBegun = false
        /// Running time of the stream's first buffer, until that is made.
        var origin: ClockTime?
        /// Subtracted from arrival times, ns.
        var shift: Int64 = 0
        var steady = SteadyShift()
        var isDiscontinuous = true
        /// The newest media path that has delivered audio; audio of older paths is dropped.
        var playedPath = PathID.lowest
        var counters: AudioOutputCounters

        /// From the earliest possible arrival of a packet until its samples are due, after which silence replaces them. With a
        /// constant latency: that, one packet, and one more for decoding.
        func slack(_ line: OutputTimeline) -> ClockTime {
            if let latency { return latency &+ 2 &* AudioFormat.packet }
            return line.isCapture ? playout.promised &+ 2 &* AudioFormat.packet : delay.current
        }
        /// The delay is in the timestamps, and follows the network.
        func isAdaptive(_ line: OutputTimeline) -> Bool { latency == nil && !line.isCapture }
        /// The latency that the pad reports.
        func promised(_ line: OutputTimeline) -> ClockTime { isAdaptive(line) ? Playout.latency : slack(line) }
        /// Subtracted from the times of arrivals.
        func shift(_ line: OutputTimeline) -> Int64 {
            line.isCapture
                ? line.shift(base: slack(line)) : Int64(clamping: promised(line)) - Int64(clamping: slack(line))
        }
        /// Limit of the queue: ten seconds of packets, besides those that a synchronizing sink holds back. A muxer takes
        /// no audio while its video does not come, and a recording must not lose it.
        func depth(_ line: OutputTimeline, newest: ClockTime) -> Int {
            let held = min(line.latency(base: slack(line)), 10_000_000_000) &+ clock.lead(of: newest)
            return 500 + Int(clamping: held / AudioFormat.packet)
        }

        /// Starts over if the running time has gone back: until it reached `next` again, all audio would be late.
        mutating func follow(_ now: ClockTime?) {
            if isPlaying, let now, clock.follow(now) { restart() }
        }

        mutating func restart() {
            chunks.removeAll()
            (next, isDiscontinuous) = (nil, true)
            if isAnnounced { events.append(Event.timeSegment()) }
        }
    }
    private let state: StateLock<State>
    private let silence = Buffer.silence(bytes: AudioFormat.returnedBytes(AudioFormat.packet))

    /// Deviation, ns, below which no samples are dropped and no silence is inserted: clocks drift, and the jitter
    /// buffer's estimate of the remote clock moves. It is less than a packet, so that silence that was pushed too early
    /// does not delay all audio after it.
    private static let tolerance: ClockTime = 10_000_000
    /// The same for packets, too early and too late ones: none can be cut, each that is dropped is a gap of 20 ms, and the
    /// jitter buffer takes its first packets for up to 80 ms later than they are. Audio goes unnoticed that is 125 ms
    /// late or 45 ms early (ITU-R BT.1359).
    private static let packetTolerance: (early: ClockTime, late: ClockTime) = (100_000_000, 40_000_000)
    /// Longest gap, ns, that is filled with silence; a longer one becomes a discontinuity.
    private static let longestFill: ClockTime = 1_000_000_000

    init(
        pad: Pad, element: ElementHandle, identity: StreamIdentity, pace: AudioPace,
        counters: AudioOutputCounters, log: DebugCategory
    ) {
        self.pace = pace
        self.element = element
        self.identity = identity
        state = StateLock(State(latency: pace.latency, playout: pace.playout, counters: counters))
        source = LiveSourcePad(pad, element: element, log: log)
        source.setHandlers(
            LiveSourcePad.Handlers(
                onActive: { [weak self] in self?.activate($0) }, turn: { [weak self] in self?.turn() },
                latency: { [weak self] in
                    self.map { output in
                        let line = output.pace.line()
                        return line.latency(base: output.state.read { $0.promised(line) })
                    }
                },
                position: { [weak self] in self?.current.next }, onUpstreamEvent: { _ in true }))
    }

    // MARK: Interface for the element

    private struct Snapshot: Sendable {
        var counters: AudioOutputCounters
        var packetCaps: String?
        var next: ClockTime?
        var isEnding: Bool
        var hasEnded: Bool
    }
    private var current: Snapshot {
        state.read {
            Snapshot(
                counters: $0.counters, packetCaps: $0.packetCaps, next: $0.next, isEnding: $0.isEnding,
                hasEnded: $0.hasEnded)
        }
    }
    var counters: AudioOutputCounters { current.counters }
    var hasEnded: Bool { current.hasEnded }
    var isLinked: Bool { source.pad.isLinked }

    func show() {
        source.pad.setActive(true)
        element.unowned.add(source.pad)
        let packetCaps = readDownstream()
        state.withLock { ($0.packetCaps, $0.isShown) = (packetCaps, true) }
        source.wake()
    }

    /// Caps of the packets, if downstream takes Opus and no samples.
    private func readDownstream() -> String? {
        guard source.pad.isLinked, let possible = try? Caps(AudioFormat.templateCaps) else { return nil }
        let allowed = source.pad.queryPeerCaps(filter: possible)
        guard !allowed.isAny, allowed.structures.allSatisfy({ $0.name == OpusPacket.capsName }) else { return nil }
        return [2, 1].map(OpusPacket.caps(channels:)).first { (try? Caps($0)).map(allowed.canIntersect) ?? false }
    }

    /// Opus packets leave.
    var givesPackets: Bool { current.packetCaps != nil }

    /// Removes the pad.
    /// - Parameter waits: waits for a push in progress, as a state change does, which stops downstream elements first.
    ///   Otherwise a push that is stuck stays so: a flush would reset the running time of the application's pipeline,
    ///   under the lock that a state change of this element holds.
    func remove(waits: Bool) {
        let hasEnded = state.withLock { state in
            state.isActive = false
            return state.hasEnded
        }
        pace.playout.end(.audio)
        if waits || hasEnded { source.pad.setActive(false) }
        element.unowned.remove(source.pad)
        if !waits, !hasEnded { source.abandon() }
    }

    func set(playing: Bool) {
        state.withLock {
            $0.isPlaying = playing
            if !playing { $0.chunks.removeAll() }
        }
        source.wake()
    }

    /// Passes an event of the input: in order with the samples, as a tag, or at once.
    func pass(_ event: Event, _ passage: Event.Passage) {
        switch passage {
        case .atOnce: source.pad.push(event)
        case .inOrder:
            state.withLock { if $0.events.count < 64 { $0.events.append(event) } }
            source.wake()
        }
    }

    /// Sends EOS after the queued audio.
    /// - Parameter onEnd: called on the streaming thread when downstream has taken EOS.
    /// - Returns: the time that downstream may take for it: a sink that synchronizes holds EOS for the latency.
    @discardableResult
    func finish(_ onEnd: (@Sendable () -> Void)? = nil) -> Duration {
        let hasEnded = state.withLock { state in
            state.isEnding = true
            if let onEnd { state.onEnd = onEnd }
            return state.hasEnded
        }
        if hasEnded { onEnd?() }
        source.wake()
        return Duration.seconds(1) + .nanoseconds(Int64(clamping: source.pipelineLatency))
    }

    /// Resumes after `finish`, as after a flush of the input.
    func resume() {
        let current = current
        guard current.isEnding || current.hasEnded else { return }
        source.resume {
            state.withLock { state in
                (state.isEnding, state.hasEnded) = (false, false)
                state.restart()
            }
        }
    }

    /// Takes decoded audio in the output's format, or packets, stamped with running time. The first buffer of a path
    /// with a higher number makes the output drop audio of all older paths.
    func submit(_ buffer: Buffer, path: PathID) {
        let line = pace.line()
        let now = element.unowned.currentRunningTime
        let length =
            givesPackets
            ? buffer.withBytes(OpusPacket.duration) ?? nil : AudioFormat.duration(bytes: buffer.size)
        state.withLock { state in
            state.counters.received &+= 1
            guard state.isActive, state.isPlaying, path >= state.playedPath, let time = buffer.pts, let length
            else { return }
            state.follow(now)
            guard state.clock.admit(frame: time) else {
                state.counters.late &+= 1
                return
            }
            if let now { state.playout.ready(.audio, after: now &- min(now, time), now: now) }
            if path > state.playedPath {
                state.playedPath = path
                state.chunks.removeAll()
            }
            state.chunks.append((buffer, length))
            if state.chunks.count > state.depth(line, newest: time) {
                state.chunks.removeFirst()
                state.counters.late &+= 1
            }
        }
        source.wake()
    }

    private func activate(_ active: Bool) {
        state.withLock {
            $0.isActive = active
            if !active { $0.chunks.removeAll() }
        }
    }

    // MARK: Streaming thread

    private enum Step {
        /// Look again after that many ns; nil: when something has changed.
        case wait(ClockTime?)
        case stop
        case announce
        case pass([Event])
        case push(Buffer)
        case gap(at: ClockTime, ClockTime)
        case eos
    }

    private func turn() {
        switch nextStep() {
        case .wait(let time): source.wait(atMost: time)
        case .stop: source.wait(atMost: nil)
        case .announce:
            let caps = current.packetCaps ?? AudioFormat.returnedCaps
            source.announce("\(identity.id)/audio", identity.groupID, caps: caps)
        case .pass(let events): for event in events { source.pad.push(event) }
        case .push(let buffer): push(buffer)
        case .gap(let time, let duration): source.pushGap(at: time, duration)
        case .eos:
            source.pad.push(Event.eos())
            // A handler of the EOS message may have resumed within the push.
            pushed(.end) { $0.isEnding }
        }
    }

    private func nextStep() -> Step {
        let (line, mayFill) = (pace.line(), pace.mayFill())
        let now = element.unowned.currentRunningTime
        return state.withLock { state in
            guard state.isActive, !state.hasEnded else { return .stop }
            guard state.isShown else { return .wait(nil) }
            guard state.isAnnounced else {
                state.isAnnounced = true
                return .announce
            }
            state.follow(now)
            if !state.events.isEmpty {
                defer { state.events.removeAll() }
                return .pass(state.events)
            }
            guard state.isPlaying else { return state.isEnding ? .eos : .wait(nil) }
            if let now {
                let (chunk, isRaw) = (state.chunks.first?.buffer, state.packetCaps == nil)
                let delays = state.playout.delays
                state.delay.follow(
                    own: delays.audio, video: delays.video,
                    isQuiet: chunk.map { AudioFormat.isQuiet($0, isRaw: isRaw) } ?? true)
                let shift = state.shift(line)
                state.shift =
                    line.isCapture ? state.steady.follow(shift, isMeasured: line.isMeasured, now: now) : shift
            }
            let shift = state.shift
            if let chunk = state.chunks.first, let time = chunk.buffer.pts {
                return place(
                    chunk.buffer, chunk.duration, at: OutputTimeline.move(time, by: shift), line, &state)
            }
            if state.isEnding { return .eos }
            return mayFill
                ? fill(
                    &state, slack: state.slack(line) &- Playout.margin,
                    now: now.map { OutputTimeline.move($0, by: shift) }
                ) : .wait(nil)
        }
    }

    /// Returns the time of the next buffer, which is `time` if none has left. Samples begin with the video; a GAP event that
    /// stands in for packets begins nothing.
    private func start(_ time: ClockTime, _ state: inout State) -> ClockTime {
        let next = state.next ?? time
        guard !state.hasBegun, state.packetCaps == nil, source.pad.isLinked else { return next }
        let begin = state.playout.begin(.audio, at: next)
        (state.hasBegun, state.origin, state.next) = (true, begin, begin)
        return begin
    }

    /// Aligns the next buffer with the last sample pushed: drops late audio, fills a short gap with silence.
    private func place(
        _ chunk: Buffer, _ duration: ClockTime, at time: ClockTime, _ line: OutputTimeline, _ state: inout State
    ) -> Step {
        var next = start(time, &state)
        // With `timestamps=capture`, all that comes back of a file leaves.
        if line.isCapture, let origin = state.origin { next = min(origin, time) }
        let isRaw = state.packetCaps == nil
        if time &+ (isRaw ? Self.tolerance : Self.packetTolerance.early) < next {
            guard state.isAdaptive(line), time &+ duration > next else {
                state.chunks.removeFirst()
                state.counters.late &+= 1
                return .wait(0)
            }
            // Silence has taken its place in part. If it were dropped, the next one would meet the same.
            state.delay.raise(by: next &- time)
        }
        // A packet that follows a loss has its time.
        if time > next &+ (isRaw || chunk.isDiscontinuous ? Self.tolerance : Self.packetTolerance.late) {
            guard time &- next > Self.longestFill else { return fillIn(time &- next, at: next, &state) }
            state.isDiscontinuous = true
        }
        state.chunks.removeFirst()
        return .push(
            stamp(
                chunk.copyOfMetadata() ?? chunk, duration, at: state.isDiscontinuous ? max(time, next) : next, &state))
    }

    /// Nothing is queued: pushes silence once audio for that time would be too late.
    private func fill(_ state: inout State, slack: ClockTime, now: ClockTime?) -> Step {
        guard let now else { return .wait(20_000_000) }
        // The first silence is due immediately.
        let next = start(now > slack ? now &- slack : 0, &state)
        let due = next &+ slack
        guard due <= now else { return .wait(min(due &- now, 1_000_000_000)) }
        // Silence for the time of a downstream stall would only add delay: continue at the present.
        if now &- due > Self.longestFill { state.isDiscontinuous = true }
        let isBehind = state.isDiscontinuous && state.origin == nil
        return fillIn(AudioFormat.packet, at: isBehind ? now &- slack : next, &state)
    }

    private func fillIn(_ duration: ClockTime, at time: ClockTime, _ state: inout State) -> Step {
        state.counters.silence &+= 1
        guard state.packetCaps == nil else {
            (state.next, state.isDiscontinuous) = (time &+ duration, false)
            return .gap(at: time, duration)
        }
        let common = duration == AudioFormat.packet ? silence.copyOfMetadata() : nil
        let buffer = common ?? Buffer.silence(bytes: AudioFormat.returnedBytes(duration))
        buffer.isGap = true
        return .push(stamp(buffer, AudioFormat.duration(bytes: buffer.size), at: time, &state))
    }

    private func stamp(_ buffer: Buffer, _ duration: ClockTime, at time: ClockTime, _ state: inout State) -> Buffer {
        buffer.pts = time
        buffer.dts = nil
        buffer.duration = duration
        buffer.isDiscontinuous = state.isDiscontinuous
        (state.isDiscontinuous, state.origin) = (false, nil)
        state.next = time &+ duration
        state.counters.pushed &+= 1
        return buffer
    }

    private func push(_ buffer: Buffer) {
        let duty = source.push(buffer, from: .audio, remedy: "audioconvert or opusdec")
        if duty != .goOn { pushed(duty) { _ in true } }
    }

    /// Takes what downstream has made of a buffer or EOS.
    private func pushed(_ duty: FlowDuty, if isDone: (State) -> Bool) {
        let onEnd = state.withLock { state -> (@Sendable () -> Void)? in
            guard isDone(state) else { return nil }
            guard duty != .tryAgain else {
                state.isDiscontinuous = true
                return nil
            }
            state.hasEnded = true
            return exchange(&state.onEnd, with: {})
        }
        onEnd?()
    }
}
