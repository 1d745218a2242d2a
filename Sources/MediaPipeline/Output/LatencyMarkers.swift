// `timestamps=capture`: measures how long a frame is in flight, by a trailer of each encoded frame where the room carries
// those, else by a number stamped into a sent frame and found in a returned one.
import DecartProtocol
package import GStreamerKit
import Synchronization
import WebRTCTransport

/// State shared by the media paths of one run.
package final class CaptureTiming: Sendable {
    let element: ElementHandle
    private let output: VideoOutput
    private let isUnanswered = Atomic(false)
    private let returnsNoTrailers = Atomic(false)
    private struct Delays {
        var filter = DelayFilter(window: 15)
        /// For the percentiles.
        var long = DelayFilter(window: 100)
        var ingest = IngestHold()
    }
    private let delays = Mutex(Delays())

    package init(element: ElementHandle, output: VideoOutput) {
        self.element = element
        self.output = output
    }

    /// Measurements; times in ns.
    package struct Measured: Sendable {
        /// Time from a frame's input running time until it is decoded; nil before the first measurement.
        package fileprivate(set) var glassToGlass: Int64?
        /// How much later large frames come back than small ones; nil: not measured.
        package fileprivate(set) var ingestHold: Int64?
        /// Median and 90th percentile of the last 100 measurements; nil before the first one.
        package fileprivate(set) var percentiles: (p50: Int64, p90: Int64)?
    }

    package var measured: Measured {
        let delays = delays.withLock { $0 }
        var measured = Measured(glassToGlass: delays.filter.value, ingestHold: delays.ingest.value)
        if let p50 = delays.long.percentile(0.5), let p90 = delays.long.percentile(0.9) {
            measured.percentiles = (p50, p90)
        }
        return measured
    }

    /// The service has been found not to return markers: media paths created from now on stamp no frames.
    var isSilent: Bool { isUnanswered.load(ordering: .relaxed) }

    /// The service has been found not to return trailers: media paths created from now on send none.
    var expectsNoTrailers: Bool { returnsNoTrailers.load(ordering: .relaxed) }
    func noTrailers() { returnsNoTrailers.store(true, ordering: .relaxed) }

    /// - Parameter size: bytes of the encoded frame; 0: not known.
    func measured(_ time: Int64, size: Int = 0) {
        isUnanswered.store(false, ordering: .relaxed)
        delays.withLock {
            $0.filter.add(time)
            $0.long.add(time)
            $0.ingest.add(size: size, delay: time)
        }
    }

    func setDelay(_ delay: Int64, path: PathID) {
        if output.setDelay(delay, path: path) { element.unowned.post(Message.latency(element.unowned)) }
    }

    func unanswered() {
        guard !isUnanswered.exchange(true, ordering: .relaxed) else { return }
        element.unowned.postWarning(
            ElementProblem(
                .resourceFailed,
                "The service returns no latency markers, so timestamps=capture uses the network's round-trip time, "
                    + "without the time of the model."))
    }
}

/// The markers of one media path: the input's thread stamps, the decoder's thread reads.
// @unchecked: `last` belongs to one thread; the rest locks itself.
package final class LatencyMarkers: @unchecked Sendable {
    private struct State {
        var scheduler: LatencyMarkerScheduler
        /// Format of the sent frames.
        var video: (width: Int, height: Int, info: VideoInfo)?
        /// Time from a frame's running time until it is sent, ns.
        var lag: Int64 = 0
        var hasSent = false
        var isEstimated = false
        /// Set while frames are sent with trailers; they get no markers then.
        var trailers: FrameTrailerTracker?
        /// Time of day at running time zero. It stays the same for a media path, so that a step of the clock does not
        /// move the times of its frames.
        var unixBase: ClockTime?

        /// Takes a frame that answers none of ours.
        mutating func withoutAnswer(_ isSilent: Bool) -> Unanswered {
            // If the service is known not to return markers, or nothing is sent, further frames would tell no more than
            // the first.
            let isFirst = (isSilent || !hasSent) && !isEstimated && scheduler.delay == nil
            if isFirst { isEstimated = true }
            return Unanswered(hasSent: hasSent, isOver: isFirst || hasSent && scheduler.frameWithoutNumber(), lag: lag)
        }
    }
    /// A frame that answers none of ours.
    private struct Unanswered: Sendable {
        var hasSent: Bool
        /// No answer is to be expected any longer.
        var isOver = false
        var lag: Int64 = 0
    }
    private let state: StateLock<State>
    /// The last returned frame, whose pixels cover the marker of the next one. Only for the decoder's thread.
    private var last: Buffer?
    private let path: PathID
    private let timing: CaptureTiming
    /// Queries the network's round-trip time; the answer comes later, on another thread.
    private let askRoundTrip: @Sendable (@escaping @Sendable (Duration?) -> Void) -> Void

    package init(
        path: PathID, timing: CaptureTiming,
        askRoundTrip: @escaping @Sendable (@escaping @Sendable (Duration?) -> Void) -> Void
    ) {
        self.path = path
        self.timing = timing
        self.askRoundTrip = askRoundTrip
        state = StateLock(
            State(
                scheduler: LatencyMarkerScheduler(firstNumber: .random(in: 0...UInt16.max), isSilent: timing.isSilent)))
    }

    // MARK: Sent frames

    /// The room carries trailers, or no longer does. Any thread.
    package func useTrailers(_ isOn: Bool) {
        guard !timing.expectsNoTrailers else { return }
        state.withLock { state in
            if isOn != (state.trailers != nil) { state.trailers = isOn ? FrameTrailerTracker() : nil }
        }
    }

    /// Returns the frame to send: with a trailer to append, a stamped copy if it gets a number, else the frame itself.
    /// - Parameter frame: a buffer that nothing else references.
    package func mark(_ frame: Buffer, size: (width: Int, height: Int), at time: ClockTime) -> Buffer {
        let now = timing.element.unowned.currentRunningTime
        let mark = state.withLock { state -> Mark in
            state.hasSent = true
            if let now { state.lag = Int64(clamping: now) &- Int64(clamping: time) }
            if state.trailers != nil, let now {
                let base = state.unixBase ?? UnixClock.now &- now
                state.unixBase = base
                return .trailer(state.trailers?.trailer(time: time, unixTime: base &+ time))
            }
            if state.video.map({ ($0.width, $0.height) != size }) ?? true {
                let info = OutputFormat(width: size.width, height: size.height).videoInfo
                state.video = info.map { (size.width, size.height, $0) }
            }
            guard size.width >= LatencyMarker.width, size.height >= LatencyMarker.height, let video = state.video,
                let number = state.scheduler.number(forFrameAt: time)
            else { return .none }
            return .number(number, video.info)
        }
        switch mark {
        case .none: return frame
        case .trailer(let trailer):
            frame[.trailer] = trailer
            return frame
        case .number(let number, let video):
            guard let copy = frame.copyOfMetadata() else { return frame }
            let isStamped = copy.withLuma(video, writable: true) { LatencyMarker.stamp(number, onto: $0) }
            return isStamped == true ? copy : frame
        }
    }

    private enum Mark: Sendable {
        case none
        case trailer([UInt8]?)
        case number(UInt16, VideoInfo)
    }

    /// A frame has left the encoder.
    func encoded(_ frame: Buffer) {
        guard let bytes = frame[.trailer] else { return }
        state.withLock { $0.trailers?.encoded(FrameTrailer(reading: bytes), size: frame.size) }
    }

    // MARK: Received frames (the decoder's thread)

    /// Evaluates the trailer or the marker of a decoded frame. Returns a copy that has the frame's time of capture, or
    /// whose marker is covered; nil if the frame can be forwarded unchanged.
    func read(_ frame: Buffer, _ video: VideoInfo) -> Buffer? {
        if let bytes = frame[.trailer] {
            return readTrailer(FrameTrailer(reading: bytes), frame) ?? readMarker(frame, video)
        }
        if giveUpTrailers() { return nil }
        return readMarker(frame, video)
    }

    /// Returns nil if the trailer belongs to no frame that was sent here.
    private func readTrailer(_ trailer: FrameTrailer, _ frame: Buffer) -> Buffer? {
        let now = timing.element.unowned.currentRunningTime
        let arrival = frame.pts
        let wasSilent = timing.isSilent
        let (answer, delay, lost) = state.withLock { state -> (FrameTrailerTracker.Answer?, Int64?, Unanswered) in
            let lost = Unanswered(hasSent: state.hasSent)
            guard let answer = state.trailers?.answer(trailer) else {
                // One of ours that is not known any longer goes on as a frame without a trailer.
                let isForeign = !state.hasSent && trailer.timestamp != nil
                return (nil, nil, isForeign ? state.withoutAnswer(wasSilent) : lost)
            }
            let delay = arrival.map { Int64(clamping: $0) &- Int64(clamping: answer.entry.time) }
            return (answer, answer.isFirst ? delay.flatMap { state.trailers?.measured($0) } : nil, lost)
        }
        // A viewer receives frames of another client, with the time of that client's clock.
        guard let unixTime = answer?.entry.unixTime ?? (lost.hasSent ? nil : trailer.timestamp.map { $0 &* 1000 })
        else {
            return nil
        }
        if let (entry, isFirst) = answer, isFirst, arrival != nil {
            if let now { timing.measured(Int64(clamping: now) &- Int64(clamping: entry.time), size: entry.size) }
            if let delay { timing.setDelay(delay, path: path) }
        } else if answer == nil {
            last = frame
            report(lost)
        }
        guard let copy = frame.copyOfMetadata() else { return nil }
        copy[.trailer] = nil
        copy.addUnixTime(unixTime)
        return copy
    }

    /// Returns true while a trailer may still come, so that frames without one say nothing about markers.
    private func giveUpTrailers() -> Bool {
        let (isWaiting, isOver) = state.withLock { state -> (Bool, Bool) in
            guard state.hasSent, state.trailers != nil else { return (false, false) }
            guard state.trailers?.frameWithoutTrailer() ?? false else { return (true, false) }
            state.trailers = nil
            return (false, true)
        }
        if isOver { timing.noTrailers() }
        return isWaiting
    }

    private func readMarker(_ frame: Buffer, _ video: VideoInfo) -> Buffer? {
        guard video.hasPlainLuma else { return nil }
        let found = frame.withLuma(video, writable: false) { LatencyMarker.find(in: $0) } ?? nil
        let now = timing.element.unowned.currentRunningTime
        let (arrival, wasSilent) = (frame.pts, timing.isSilent)
        let (sentAt, delay, lost) = state.withLock { state -> (ClockTime?, Int64?, Unanswered?) in
            guard let found, state.scheduler.contains(found.number) else {
                return (nil, nil, state.withoutAnswer(wasSilent))
            }
            guard let sentAt = state.scheduler.answer(found.number), let arrival else { return (nil, nil, nil) }
            return (sentAt, state.scheduler.measured(Int64(clamping: arrival) &- Int64(clamping: sentAt)), nil)
        }
        guard lost == nil, let found else {
            last = frame
            if let lost { report(lost) }
            return nil
        }
        if let sentAt, let now { timing.measured(Int64(clamping: now) &- Int64(clamping: sentAt)) }
        if let delay { timing.setDelay(delay, path: path) }
        guard let copy = frame.copyOfMetadata() else { return nil }
        let isCovered = copy.withLuma(video, writable: true) { luma -> Bool in
            let isDone = last?.withLuma(video, writable: false) { other -> Bool in
                LatencyMarker.cover(found, in: luma, with: other)
                return true
            }
            if isDone != true { LatencyMarker.cover(found, in: luma, with: nil) }
            return true
        }
        last = copy
        return isCovered == true ? copy : nil
    }

    /// Sets the delay once no answer is to be expected.
    private func report(_ lost: Unanswered) {
        guard lost.isOver else { return }
        // A viewer receives frames of another client: only their arrival time is known.
        guard lost.hasSent else { return timing.setDelay(0, path: path) }
        timing.unanswered()
        askRoundTrip { [path, timing] roundTrip in
            timing.setDelay(lost.lag &+ Int64(clamping: (roundTrip ?? .zero).clockTime), path: path)
        }
    }
}

extension Buffer {
    /// Returns nil if the frame cannot be mapped. Writing copies memory that is shared with other buffers first.
    fileprivate func withLuma<R>(_ video: VideoInfo, writable: Bool, _ body: (BytePlane) -> R) -> R? {
        let result = withVideoFrame(video, writable: writable) { frame -> R? in
            guard let plane = frame.plane(0),
                let luma = BytePlane(
                    base: plane.base, stride: plane.stride, width: video.width, height: video.height)
            else { return nil }
            return body(luma)
        }
        return result ?? nil
    }
}
