// The pad `audio_src` and the one thread that pushes from it: one stream of samples without a gap, whatever the network
// does. Decoded sound is put down here and never waits; where there is none, silence leaves in its place, as late as the
// jitter buffer may hold a packet back. It knows samples and time; it must not know sessions.
import Dispatch
import GStreamerKit
import Synchronization

struct AudioOutputCounters: Sendable {
    /// Decoded buffers that came.
    var received: UInt64 = 0
    var pushed: UInt64 = 0
    /// Of those pushed, how many were not the service's.
    var silence: UInt64 = 0
    /// Came while downstream was still busy, or after silence had left in their place.
    var late: UInt64 = 0
}

/// What sound goes by: the pictures' time line, so that both are moved alike.
struct AudioPace: Sendable {
    var line: @Sendable () -> OutputTimeline = { OutputTimeline() }
    /// False where the input's time stands still with the session: silence would take the place of what comes.
    var mayFill: @Sendable () -> Bool = { true }
}

// @unchecked: the pad locks itself; what changes is in the mutex.
final class AudioOutput: @unchecked Sendable {
    let pad: Pad
    private let element: ElementHandle
    private let log: DebugCategory
    private let identity: StreamIdentity
    private let pace: AudioPace

    private struct State {
        var chunks: [Buffer] = []
        var events: [Event] = []
        /// The element has the pad: who listens for that has linked it.
        var isShown = false
        var isActive = false
        var isPlaying = false
        var isAnnounced = false
        var isEnding = false
        var hasEnded = false
        let latency: ClockTime
        /// Running time of the sample that leaves next.
        var next: ClockTime?
        /// By which arrival is moved back.
        var shift: Int64 = 0
        var steady = SteadyShift()
        var isDiscontinuous = true
        /// The newest media path that has been heard: older ones are not any more.
        var heardRank = -1
        var counters: AudioOutputCounters

        /// Sound carries the time at which its packet came. After this it is not waited for any longer, and what stands
        /// in for it leaves: the jitter buffer's patience, a packet, and one more for decoding.
        var slack: ClockTime { latency &+ 2 &* AudioFormat.packet }
        /// A second, besides what a sink that keeps time holds back.
        func depth(_ line: OutputTimeline) -> Int { 50 + Int(clamping: line.latency(base: slack) / AudioFormat.packet) }
    }
    private let state: Mutex<State>
    private let work = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private let silence = Buffer.silence(bytes: AudioFormat.returnedBytes(AudioFormat.packet))

    /// What may be off, ns, before samples are left out or silence is put in: clocks drift, and a jitter buffer's idea of
    /// theirs moves. Less than a packet, for silence that left too early must not push all that follows back.
    private static let tolerance: ClockTime = 10_000_000
    /// ns. A longer hole is left open.
    private static let longestFill: ClockTime = 1_000_000_000

    init(
        pad: Pad, element: ElementHandle, identity: StreamIdentity, latency: ClockTime, pace: AudioPace,
        counters: AudioOutputCounters, log: DebugCategory
    ) {
        self.pace = pace
        self.pad = pad
        self.element = element
        self.identity = identity
        self.log = log
        state = Mutex(State(latency: latency, counters: counters))
        pad.setActivateFunction { [weak self] active in
            self?.activate(active)
            return true
        }
        // They speak of the output's time line; the input's side has its own.
        pad.setEventFunction { .handled($0.kind != .seek) }
        pad.setQueryFunction { [weak self] query in self?.answer(query) ?? .forward }
    }

    // MARK: For the element

    var counters: AudioOutputCounters { state.withLock(\.counters) }

    /// Adds the pad to the element, which tells everybody of it.
    func show() {
        pad.setActive(true)
        element.unowned.add(pad)
        state.withLock { $0.isShown = true }
        work.signal()
    }

    /// After EOS, and at once where the element stops: downstream was told to let go then.
    func remove(isStopping: Bool) {
        if !isStopping {
            finish()
            // Downstream stands still. The flush wakes the pad's thread, which must be gone before the flush ends: it would
            // be caught there once more, by what is queued.
            if ended.wait(timeout: .now() + .seconds(1)) == .timedOut {
                state.withLock { $0.isActive = false }
                pad.push(Event.flushStart())
                pad.stopTask()
                pad.push(Event.flushStop())
            }
        }
        pad.setActive(false)
        element.unowned.remove(pad)
    }

    func set(playing: Bool) {
        state.withLock {
            $0.isPlaying = playing
            if !playing { $0.chunks.removeAll() }
        }
        work.signal()
    }

    /// Tags of the input, pushed in order with the samples.
    func forward(_ event: Event) {
        state.withLock { if $0.events.count < 64 { $0.events.append(event) } }
        work.signal()
    }

    /// After what is queued, EOS.
    func finish() {
        state.withLock { $0.isEnding = true }
        work.signal()
    }

    /// Decoded sound in the output's format, stamped with running time. The first one of a path with a higher rank ends the
    /// hearing of all others.
    func submit(_ buffer: Buffer, rank: Int) {
        let line = pace.line()
        state.withLock { state in
            state.counters.received &+= 1
            guard state.isActive, state.isPlaying, rank >= state.heardRank, buffer.pts != nil else { return }
            if rank > state.heardRank {
                state.heardRank = rank
                state.chunks.removeAll()
            }
            state.chunks.append(buffer)
            if state.chunks.count > state.depth(line) {
                state.chunks.removeFirst()
                state.counters.late &+= 1
            }
        }
        work.signal()
    }

    // MARK: The pad

    private func activate(_ active: Bool) {
        if active {
            state.withLock { $0.isActive = true }
            pad.startTask { [weak self] in self?.loop() }
        } else {
            state.withLock {
                $0.isActive = false
                $0.chunks.removeAll()
            }
            work.signal()
            pad.stopTask()
        }
    }

    private func answer(_ query: QueryRef) -> QueryHandling {
        switch query.kind {
        case .latency:
            query.answerLatency(live: true, minimum: pace.line().latency(base: state.withLock(\.slack)), maximum: nil)
            return .answered
        case .seeking:
            query.answerNotSeekable()
            return .answered
        case .position:
            guard let time = state.withLock(\.next) else { return .refused }
            query.answerPosition(time)
            return .answered
        case .duration: return .refused
        default: return .forward
        }
    }

    // MARK: The pad's thread

    private enum Step {
        case wait(until: DispatchTime)
        case stop
        case announce
        case pass([Event])
        case push(Buffer)
        case eos
    }

    private func loop() {
        switch nextStep() {
        case .wait(let deadline): _ = work.wait(timeout: deadline)
        case .stop: pad.pauseTask()
        case .announce: announce()
        case .pass(let events): for event in events { pad.push(event) }
        case .push(let buffer): push(buffer)
        case .eos:
            pad.push(Event.eos())
            end()
        }
    }

    private func nextStep() -> Step {
        let (line, mayFill) = (pace.line(), pace.mayFill())
        let now = element.unowned.currentRunningTime
        return state.withLock { state in
            guard state.isActive, !state.hasEnded else { return .stop }
            guard state.isShown else { return .wait(until: .distantFuture) }
            guard state.isAnnounced else {
                state.isAnnounced = true
                return .announce
            }
            if !state.events.isEmpty {
                defer { state.events.removeAll() }
                return .pass(state.events)
            }
            guard state.isPlaying else { return state.isEnding ? .eos : .wait(until: .distantFuture) }
            if let now {
                state.shift = state.steady.follow(line.shift(base: state.slack), isMeasured: line.isMeasured, now: now)
            }
            let shift = state.shift
            if let chunk = state.chunks.first, let time = chunk.pts {
                return place(chunk, at: OutputTimeline.move(time, by: shift), &state)
            }
            if state.isEnding { return .eos }
            return mayFill ? fill(&state, now: now.map { OutputTimeline.move($0, by: shift) }) : .wait(until: .distantFuture)
        }
    }

    /// What comes fits to what has left, or is made to.
    private func place(_ chunk: Buffer, at time: ClockTime, _ state: inout State) -> Step {
        let next = state.next ?? time
        if time &+ Self.tolerance < next {
            state.chunks.removeFirst()
            state.counters.late &+= 1
            return .wait(until: .now())
        }
        if time > next &+ Self.tolerance {
            guard time &- next > Self.longestFill else { return .push(makeSilence(time &- next, at: next, &state)) }
            state.isDiscontinuous = true
        }
        state.chunks.removeFirst()
        return .push(stamp(chunk.copyOfMetadata() ?? chunk, at: state.isDiscontinuous ? max(time, next) : next, &state))
    }

    /// Nothing came, and nothing will that is due by now.
    private func fill(_ state: inout State, now: ClockTime?) -> Step {
        guard let now else { return .wait(until: .now() + .milliseconds(20)) }
        let slack = state.slack
        // The first one is due at once.
        let next = state.next ?? (now > slack ? now &- slack : 0)
        let due = next &+ slack
        guard due <= now else {
            return .wait(until: .now() + .nanoseconds(Int(clamping: min(due &- now, 1_000_000_000))))
        }
        // After a stall of downstream there is nothing to catch up with.
        if now &- due > Self.longestFill { state.isDiscontinuous = true }
        return .push(makeSilence(AudioFormat.packet, at: state.isDiscontinuous ? now &- slack : next, &state))
    }

    private func makeSilence(_ duration: ClockTime, at time: ClockTime, _ state: inout State) -> Buffer {
        let common = duration == AudioFormat.packet ? silence.copyOfMetadata() : nil
        let buffer = common ?? Buffer.silence(bytes: AudioFormat.returnedBytes(duration))
        buffer.isGap = true
        state.counters.silence &+= 1
        return stamp(buffer, at: time, &state)
    }

    private func stamp(_ buffer: Buffer, at time: ClockTime, _ state: inout State) -> Buffer {
        let duration = AudioFormat.duration(bytes: buffer.size)
        buffer.pts = time
        buffer.dts = nil
        buffer.duration = duration
        buffer.isDiscontinuous = state.isDiscontinuous
        state.isDiscontinuous = false
        state.next = time &+ duration
        return buffer
    }

    private func push(_ buffer: Buffer) {
        state.withLock { $0.counters.pushed &+= 1 }
        switch pad.push(buffer) {
        case .ok: break
        case .notLinked, .flushing:
            // Somebody may link it later, or has taken away what was there; our own end is told otherwise.
            state.withLock { $0.isDiscontinuous = true }
        case .eos: end()
        case let flow:
            log(.warning, element.unowned, "downstream refused sound: \(flow)")
            pad.push(Event.eos())
            end()
            element.unowned.postError(
                ElementProblem(
                    flow == .notNegotiated ? .coreNegotiation : .streamFailed, "Internal data stream error.",
                    debug: "streaming stopped, reason \(flow)"))
        }
    }

    private func end() {
        state.withLock { $0.hasEnded = true }
        ended.signal()
        pad.pauseTask()
    }

    private func announce() {
        pad.push(Event.streamStart(id: "\(identity.id)/audio", groupID: identity.groupID))
        if let caps = try? Caps(AudioFormat.returnedCaps) { pad.push(Event.caps(caps)) }
        pad.push(Event.timeSegment())
    }
}
