// Decides what the video output pushes next, and when: a value without pads, buffers or threads. Times are running
// times, ns. `Payload` is a decoded frame.
import RTP
package import GStreamerKit
import WebRTCTransport

/// Survives the deactivation of the pad.
package struct OutputConfiguration: Sendable {
    /// Size and rate for what downstream's caps leave open.
    package var preferred = OutputFormat(width: 1280, height: 704, framerate: (22, 1))
    /// The size of the output follows that of the received frames.
    package var followsReceived = false
    /// The `latency` property, ns, counted from a frame's arrival; nil: the playout delay adapts.
    package var latency: ClockTime?
    /// Minimum latency, ns, if frames carry their input's running time; nil: they carry their arrival's.
    package var captureLatency: ClockTime?
    /// Nothing is announced downstream before the orientation is known (`orient`).
    package var waits = false
    package var fallback = Fallback.freeze
    /// Longest time between two keyframes of an encoded output; zero: they come as they are.
    package var keyframeInterval = Duration.zero
    /// The frames are encoded: none is repeated, and none is dropped unless all that depend on it are.
    package var isEncoded = false

    package init() {}
}

package struct OutputScheduler<Payload> {
    private struct Frame {
        var payload: Payload
        /// The earliest possible arrival.
        var arrival: ClockTime?
        /// When a sink with `sync=true` shows it, in a pipeline with no more latency than the output's.
        var display: ClockTime?
        var format: OutputFormat?
    }

    package enum Content {
        case frame(Payload)
        case black
    }

    package struct Stamp: Equatable {
        package var time: ClockTime
        package var duration: ClockTime
        package var isDiscontinuous: Bool
    }

    package enum Step {
        /// Look again after that many ns; nil: when something has changed.
        case wait(ClockTime?)
        case stop
        case negotiate
        /// A SEGMENT event, because the next time lies before the last one.
        case segment
        case changeFormat(OutputFormat)
        case push(Content, Stamp)
        case gap(at: ClockTime, duration: ClockTime)
        case endOfStream
    }

    /// ns; a longer time without frames is a gap, which is not filled with the last frame.
    private static var shortGap: ClockTime { 500_000_000 }
    /// ns; frames that became ready together may take this long to leave.
    private static var overdue: ClockTime { 100_000_000 }

    package private(set) var configuration: OutputConfiguration
    /// The playout delay of video and audio.
    package let playout: Playout
    /// The latency of the last LATENCY event.
    package var pipelineLatency: ClockTime = 0
    package private(set) var timeline: OutputTimeline
    package private(set) var counters = OutputCounters()
    package private(set) var negotiated: OutputFormat?
    private var clock = RunningClock()
    /// Time of the last frame or gap that left.
    package private(set) var lastTime: ClockTime?
    /// Output time of the stream's first frame; nil until one is to leave.
    private var origin: ClockTime?
    package var isActive = false
    package var isPlaying = false
    /// End the stream after the queued frames.
    package var isEnding = false
    /// The stream has ended, by EOS or an error.
    package var hasEnded = false
    private var frames: [Frame] = []
    private var isDiscontinuous = true
    /// The last frame that left stood in for a missing one.
    private var isFilling = false
    /// The last transformed frame, which `freeze` repeats, and its time.
    private var lastFrame: Payload?
    private var lastFrameTime: ClockTime?
    /// The newest raw frame, for `passthrough` only.
    private var rawFrame: Payload?
    /// The newest media path that has shown a frame; frames of older ones are dropped.
    private var shownPath = PathID.lowest

    /// What has to come next.
    private struct Needs {
        var negotiation = true
        var segment = false
        /// Sinks wait for a first buffer or GAP before they let the pipeline play.
        var preroll = false
        /// The next frame to queue is a keyframe. For encoded frames only.
        var keyframe = true
    }
    private var needs = Needs()

    /// - Parameter counters: those of the scheduler that this one replaces; counting continues from them.
    package init(
        _ configuration: OutputConfiguration = OutputConfiguration(), counters: OutputCounters = OutputCounters(),
        playout: Playout = Playout()
    ) {
        self.configuration = configuration
        self.counters = counters
        self.playout = playout
        timeline = OutputTimeline(minimumLatency: configuration.captureLatency)
    }

    /// Size and rate of the frames that leave.
    package var format: OutputFormat { negotiated ?? configuration.preferred }

    /// Latency that is promised downstream.
    package var latency: ClockTime { timeline.latency(base: promisedLatency) }

    /// A frame's PTS is its display minus this, so that the playout delay changes without a word to the pipeline. With
    /// `timestamps=capture`, the PTS is not ours to choose, so the latency covers the playout delay.
    private var promisedLatency: ClockTime {
        guard timeline.isCapture else { return (configuration.latency ?? 0) &+ Playout.latency }
        return (configuration.latency ?? playout.promised) &+ max(configuration.preferred.interval, interval)
    }

    /// A sink with `sync=true` shows a frame at its PTS plus this.
    private var sinkLatency: ClockTime { max(latency, pipelineLatency) }

    /// How long a sink holds a frame beyond the time that our latency covers.
    private var held: ClockTime { min(timeline.isCapture ? sinkLatency : sinkLatency &- latency, 10_000_000_000) }

    /// Downstream is too slow: more frames wait than while a sink holds one for its display, and four more. Those that a
    /// retransmission made ready together are due together, and none of them is dropped.
    private func isOverfull(_ now: ClockTime?) -> Bool {
        let newest = frames.last
        let lead = clock.lead(of: timeline.isCapture ? newest?.arrival : newest?.display)
        let shortest = max(1, min(interval, configuration.preferred.interval))
        let capacity = 4 + Int(clamping: (held &+ lead) / shortest)
        guard frames.count > capacity else { return false }
        guard let now, let display = frames[0].display, now < display &+ held &+ Self.overdue else { return true }
        // Older raw frames are left out. Encoded ones depend on each other, so all that a retransmission may hold back stay.
        let longestBurst: ClockTime = configuration.isEncoded ? 2_000_000_000 : 500_000_000
        return frames.count > capacity + Int(clamping: longestBurst / shortest)
    }

    /// From one frame to the next; with a variable rate, that of the service.
    private var interval: ClockTime {
        format.framerate.0 > 0 ? format.interval : configuration.preferred.interval
    }

    /// True if downstream's caps fix another rate than the service's: frames are then dropped and repeated to match.
    private var convertsRate: Bool {
        negotiated.map { $0.framerate.0 > 0 && $0.framerate != configuration.preferred.framerate } ?? false
    }

    /// The output time of what arrives at this running time.
    func moved(_ time: ClockTime) -> ClockTime { timeline.moved(time, base: promisedLatency) }

    // MARK: Events

    package enum Event {
        case playing(Bool), ending, resumed, renegotiate, preroll
        case fallback(Fallback), keyframeInterval(Duration), portrait(Bool), framerate(Int)
        case delay(Int64, PathID)
        case raw(Payload, OutputFormat)
        /// What downstream has made of the last frame.
        case pushed(FlowDuty)
    }

    /// - Returns: true if more latency is needed than was reported.
    package mutating func handle(_ event: Event) -> Bool {
        switch event {
        case .playing(let isOn): isPlaying = isOn
        case .ending: isEnding = true
        case .resumed: resume()
        case .renegotiate: renegotiate()
        case .preroll: preroll()
        case .fallback(let fallback): set(fallback: fallback)
        case .keyframeInterval(let interval): configuration.keyframeInterval = interval
        case .portrait(let isPortrait): orient(portrait: isPortrait)
        case .framerate(let rate): prefer(framerate: rate)
        case .delay(let delay, let path): return setDelay(delay, path: path)
        case .raw(let payload, let format): setRaw(payload, format)
        case .pushed(let duty): pushed(duty)
        }
        return false
    }

    /// A frame of an input that is not live waits for PLAYING. A container that has built its own chain (playbin) waits in
    /// turn for what its sinks get in PAUSED, and a live source gives them nothing.
    /// - Returns: false if something has left already.
    @discardableResult package mutating func preroll() -> Bool {
        needs.preroll = !isPlaying && lastTime == nil && !configuration.isEncoded
        return needs.preroll
    }

    /// Takes what downstream has made of the last frame.
    package mutating func pushed(_ duty: FlowDuty) {
        switch duty {
        case .goOn: break
        case .tryAgain: isDiscontinuous = true
        case .end, .fail: hasEnded = true
        }
    }

    package mutating func renegotiate() { needs.negotiation = true }

    package mutating func set(fallback: Fallback) {
        configuration.fallback = fallback
        if fallback != .passthrough { rawFrame = nil }
    }

    /// Drops a frame that was scaled for another format than the present one.
    package mutating func setRaw(_ payload: Payload, _ format: OutputFormat) {
        if configuration.fallback == .passthrough, negotiated?.hasSize(of: format) ?? true { rawFrame = payload }
    }

    package mutating func orient(portrait: Bool) {
        let (width, height) = (configuration.preferred.width, configuration.preferred.height)
        if (height > width) != portrait {
            (configuration.preferred.width, configuration.preferred.height) = (height, width)
        }
        configuration.waits = false
        needs.negotiation = true
    }

    package mutating func prefer(framerate: Int) {
        guard configuration.preferred.framerate != (framerate, 1) else { return }
        configuration.preferred.framerate = (framerate, 1)
        needs.negotiation = true
    }

    /// Takes the delay of a media path, from the input's running time to the arrival.
    /// - Returns: true if more latency is needed than was reported.
    package mutating func setDelay(_ delay: Int64, path: PathID) -> Bool {
        timeline.setDelay(delay, path: path, base: promisedLatency)
    }

    /// Queues a frame. The first one of a newer media path ends the output of all older ones.
    /// - Parameters:
    ///   - arrival: when the first packet of the frame arrived at the earliest (`PlayoutClock`).
    ///   - isDelta: the frame depends on earlier ones.
    ///   - now: current running time; nil without a clock.
    /// - Returns: true if encoded frames are dropped from here to a keyframe, which is to be requested.
    @discardableResult
    package mutating func enqueue(
        _ payload: Payload, arrival: ClockTime?, format: OutputFormat?, path: PathID, isDelta: Bool = false,
        now: ClockTime? = nil
    ) -> Bool {
        counters.received &+= 1
        guard isActive, isPlaying else {
            needs.keyframe = true
            return false
        }
        guard path >= shownPath else { return false }
        follow(now)
        if configuration.isEncoded, isDelta, needs.keyframe || path > shownPath { return true }
        needs.keyframe = false
        // If `waits` is still set, the input has sent nothing: these are our muted (black) frames coming back. Do not
        // wait for an orientation any longer.
        configuration.waits = false
        if path > shownPath {
            shownPath = path
            frames.removeAll()
            isDiscontinuous = true
        }
        let isStale = arrival.map { !clock.admit(frame: $0) } ?? false
        let frame = Frame(payload: payload, arrival: isStale ? now : arrival, format: format)
        frames.append(scheduled(frame, now))
        guard isOverfull(now) else { return false }
        isDiscontinuous = true
        guard configuration.isEncoded else {
            frames.removeFirst()
            counters.droppedLate &+= 1
            return false
        }
        counters.droppedLate &+= UInt64(frames.count)
        frames.removeAll()
        needs.keyframe = true
        return true
    }

    /// Gives a frame that is ready the time of its display: later than its delay if it is late itself.
    private mutating func scheduled(_ frame: Frame, _ now: ClockTime?) -> Frame {
        guard let arrival = frame.arrival else { return frame }
        var frame = frame
        let lateness = now.map { $0 &- min($0, arrival) } ?? 0
        let adaptive = playout.ready(.video, after: lateness, now: now ?? arrival)
        let delay = configuration.latency.map { $0 &+ Playout.latency } ?? adaptive
        let shown = max(delay, lateness &+ Playout.margin)
        frame.display = arrival &+ shown
        counters.played(after: shown, target: delay, lateness: lateness)
        return frame
    }

    private func outputTime(_ frame: Frame, _ now: ClockTime?) -> ClockTime? {
        guard !timeline.isCapture else { return frame.arrival.map(moved) }
        guard let display = frame.display else { return nil }
        let time = display &- min(display, latency)
        // It may have waited here, behind a slow element.
        guard let earliest = now.map({ $0 &+ Playout.margin }) else { return time }
        return max(time, earliest &- min(earliest, sinkLatency))
    }

    /// Returns what the negotiation is to prefer.
    package mutating func beginNegotiation() -> OutputFormat {
        needs.negotiation = false
        return configuration.preferred
    }

    /// - Returns: false if nothing changes.
    package mutating func setFormat(_ format: OutputFormat) -> Bool {
        guard negotiated != format else { return false }
        negotiated = format
        (lastFrame, rawFrame) = (nil, nil)
        return true
    }

    package mutating func deactivate() {
        isActive = false
        frames.removeAll()
        (lastFrame, rawFrame) = (nil, nil)
    }

    // MARK: The next step

    /// - Parameters:
    ///   - now: current running time; nil without a clock.
    ///   - mayFill: false while the input's timeline waits, so that gaps are not filled if frames carry its time.
    package mutating func next(now: ClockTime?, mayFill: Bool) -> Step {
        guard isActive, !hasEnded else { return .stop }
        follow(now)
        if needs.negotiation, !configuration.waits || isEnding { return .negotiate }
        if configuration.waits, !isEnding { return .wait(nil) }
        guard isPlaying else {
            if isEnding { return end() }
            guard negotiated != nil, exchange(&needs.preroll, with: false) else { return .wait(nil) }
            return .gap(at: 0, duration: interval)
        }
        if needs.segment {
            needs.segment = false
            return .segment
        }
        if let frame = frames.first, isEnding || timeline.hasDelay(path: shownPath) { return show(frame, now) }
        if isEnding { return end() }
        if timeline.isCapture, !mayFill { return .wait(nil) }
        return fill(now: now.map(moved))
    }

    /// Marks the end before EOS is pushed, because the application may seek as soon as it sees EOS.
    private mutating func end() -> Step {
        hasEnded = true
        return .endOfStream
    }

    package var isEndingOrEnded: Bool { isEnding || hasEnded }

    /// Undoes the end of the stream.
    package mutating func resume() {
        (isEnding, hasEnded, isDiscontinuous, needs.segment) = (false, false, true, true)
        frames.removeAll()
    }

    /// Starts over if the running time has gone back: until it reached the last time again, nothing would leave.
    private mutating func follow(_ now: ClockTime?) {
        guard isPlaying, let now, clock.follow(now) else { return }
        (lastTime, origin, isDiscontinuous, needs.segment) = (nil, nil, true, true)
        if lastFrameTime != nil { lastFrameTime = moved(now) }
        for index in frames.indices { (frames[index].arrival, frames[index].display) = (now, now &+ Playout.margin) }
    }

    private mutating func show(_ frame: Frame, _ now: ClockTime?) -> Step {
        if let received = frame.format, let current = negotiated, !received.hasSize(of: current) {
            guard !configuration.followsReceived else {
                return .changeFormat(
                    OutputFormat(width: received.width, height: received.height, framerate: current.framerate))
            }
            // It was scaled before downstream chose another size.
            frames.removeFirst()
            counters.droppedLate &+= 1
            return .wait(0)
        }
        let time = outputTime(frame, now)
        if let lead = lead(to: time) { return lead }
        let place = place(at: time)
        if place == .later, let lastFrame { return .push(.frame(lastFrame), stamp(nil)) }
        frames.removeFirst()
        defer { timeline.frameLeft(interval: interval) }
        lastFrame = frame.payload
        guard place != .nowhere else { return .wait(0) }
        let stamp = stamp(time)
        (lastFrameTime, isFilling) = (stamp.time, false)
        return .push(.frame(frame.payload), stamp)
    }

    private mutating func begin(at time: ClockTime) -> ClockTime {
        let begin = origin ?? playout.begin(.video, at: time)
        origin = begin
        return begin
    }

    /// Returns what stands in for frames before the first one, if the audio has begun before it. With `timestamps=capture`,
    /// each frame belongs to one of the input, and none is added.
    private mutating func lead(to time: ClockTime?) -> Step? {
        guard lastTime == nil, let time, case let begin = begin(at: time), !configuration.isEncoded,
            !timeline.isCapture, begin &+ interval <= time
        else { return nil }
        return fallback(now: begin).map { standIn($0, at: begin) }
    }

    private mutating func standIn(_ content: Content, at time: ClockTime) -> Step {
        isFilling = true
        counters.fallbackFrames &+= 1
        return .push(content, leave(at: time))
    }

    private enum Place { case here, later, nowhere }

    /// Places a frame on the grid of downstream's rate: at the next point; later, so that the last frame is repeated
    /// there; or nowhere, if the point nearest to it is taken, or before the stream's beginning.
    private func place(at time: ClockTime?) -> Place {
        if lastTime == nil, !configuration.isEncoded, !timeline.isCapture, let time, let origin,
            time &+ interval / 2 < origin
        {
            return .nowhere
        }
        guard convertsRate, let lastTime, let time else { return .here }
        let next = lastTime &+ interval
        if time &+ interval / 2 < next { return .nowhere }
        // The last frame is not repeated after a gap.
        guard let lastFrameTime, next < lastFrameTime &+ Self.shortGap else { return .here }
        return time > next &+ interval / 2 ? .later : .here
    }

    /// Makes times strictly increasing, whatever the network did, and on the grid if downstream fixes another rate.
    /// - Parameter time: nil to repeat the last frame at the next point of the grid.
    private mutating func stamp(_ time: ClockTime?) -> Stamp {
        let next = lastTime.map { $0 &+ interval }
        var time = time ?? next ?? 0
        if let lastTime, let next {
            if convertsRate, time < next &+ interval { time = next }
            // Files count in milliseconds or coarser, and refuse two frames of one time.
            time = max(time, lastTime &+ max(interval / 8, 1))
            if time &- lastTime > 5 &* interval { isDiscontinuous = true }
        }
        return leave(at: time)
    }

    private mutating func leave(at time: ClockTime) -> Stamp {
        defer { isDiscontinuous = false }
        lastTime = time
        counters.pushed &+= 1
        return Stamp(time: time, duration: interval, isDiscontinuous: isDiscontinuous)
    }

    /// Returns what stands in for a missing frame, and when: a little after its time, because it may still come, and then at
    /// the frame rate.
    private mutating func fill(now: ClockTime?) -> Step {
        // The caps of an encoded stream come with its first frame, and nothing leaves before them.
        if configuration.isEncoded, lastTime == nil { return .wait(nil) }
        guard let now else { return .wait(20_000_000) }
        // 145 ms at most, so that downstream hardly waits 200 ms.
        let fillAfter = min(configuration.latency ?? 100_000_000, 100_000_000) &+ min(interval, 45_000_000)
        // The first frame is due at once: a due time that moved along with `now` would never be reached.
        let next = lastTime.map { $0 &+ interval } ?? (now > fillAfter ? now &- fillAfter : 0)
        let reach = timeline.isCapture ? fillAfter &+ interval : latency &- Playout.margin
        let due = next &+ (isFilling ? min(reach, fillAfter) : fillAfter)
        guard due <= now else { return .wait(min(due &- now, 1_000_000_000)) }
        // Frames missed during a stall of downstream are not made up for.
        var time = max(next, now &- min(now, reach))
        if let content = fallback(now: now) {
            if lastTime == nil { time = begin(at: time) }
            return time <= now ? standIn(content, at: time) : .wait(time &- now)
        }
        (lastTime, isFilling) = (time, true)
        return .gap(at: time, duration: interval)
    }

    private func fallback(now: ClockTime) -> Content? {
        if configuration.isEncoded { return nil }
        // `black` and `passthrough` repeat the last frame in a short gap too: a lost packet must not flash.
        let isShort = lastFrameTime.map { now < $0 &+ Self.shortGap } ?? false
        let last = lastFrame.map(Content.frame)
        switch configuration.fallback {
        case .none: return nil
        case .freeze: return last ?? .black
        case .black: return isShort ? last : .black
        case .passthrough: return isShort ? last : rawFrame.map(Content.frame) ?? .black
        }
    }
}

// A lock may give them away.
extension OutputScheduler.Event: Sendable where Payload: Sendable {}
extension OutputScheduler.Content: Sendable where Payload: Sendable {}
extension OutputScheduler.Step: Sendable where Payload: Sendable {}
