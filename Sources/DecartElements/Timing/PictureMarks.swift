// `timestamps=capture`: how long a picture is on its way, by a number stamped into one that is sent and found in one
// that comes back. It knows pixels and running times; it must not know sessions or sockets.
import DecartProtocol
import GStreamerKit
import Synchronization

/// What the media paths of one run share.
final class CaptureTiming: Sendable {
    let element: ElementHandle
    private let output: VideoOutput
    private let isUnanswered = Atomic(false)
    private let glassToGlass = Mutex(DelayFilter(window: 15))

    init(element: ElementHandle, output: VideoOutput) {
        self.element = element
        self.output = output
    }

    /// ns, from the input's running time to the decoded picture; nil before it was measured.
    var glassToGlassTime: Int64? { glassToGlass.withLock(\.value) }

    /// The service was seen not to answer: no further picture is spoilt.
    var isSilent: Bool { isUnanswered.load(ordering: .relaxed) }

    func measured(_ time: Int64) {
        isUnanswered.store(false, ordering: .relaxed)
        glassToGlass.withLock { _ = $0.add(time) }
    }

    func settle(_ delay: Int64, rank: Int) {
        if output.settle(delay: delay, rank: rank) { element.unowned.post(Message.latency(element.unowned)) }
    }

    func unanswered() {
        guard !isUnanswered.exchange(true, ordering: .relaxed) else { return }
        element.unowned.postWarning(
            ElementProblem(
                .resourceFailed,
                "The service does not say which picture it returns: timestamps=capture goes by the network's round-trip time, "
                    + "without the time that the model takes."))
    }
}

/// Of one media path: the input's thread stamps, the decoder's reads.
final class PictureMarks: Sendable {
    private struct State {
        var ledger: MarkerLedger
        /// Of the pictures that are sent.
        var video: (width: Int, height: Int, info: VideoInfo)?
        /// From the input's running time to the moment at which the frame is sent.
        var lag: Int64 = 0
        /// The last one returned, which covers the marker in the next.
        var picture: Buffer?
        var hasSent = false
        var isEstimated = false
    }
    private let state: Mutex<State>
    private let rank: Int
    private let timing: CaptureTiming
    /// Finds the network's round-trip time out, later and elsewhere.
    private let askRoundTrip: @Sendable (@escaping @Sendable (Duration?) -> Void) -> Void

    init(
        rank: Int, timing: CaptureTiming,
        askRoundTrip: @escaping @Sendable (@escaping @Sendable (Duration?) -> Void) -> Void
    ) {
        self.rank = rank
        self.timing = timing
        self.askRoundTrip = askRoundTrip
        state = Mutex(
            State(ledger: MarkerLedger(firstNumber: .random(in: 0...UInt16.max), isSilent: timing.isSilent)))
    }

    // MARK: What is sent

    /// The frame as it is to be sent; one with a number is a copy.
    func mark(_ frame: Buffer, size: (width: Int, height: Int), at time: ClockTime) -> Buffer {
        let now = timing.element.unowned.currentRunningTime
        let marked = state.withLock { state -> (UInt16, VideoInfo)? in
            state.hasSent = true
            if let now { state.lag = Int64(clamping: now) &- Int64(clamping: time) }
            if state.video.map({ ($0.width, $0.height) != size }) ?? true {
                let format = OutputFormat(width: size.width, height: size.height, framerate: (0, 1))
                state.video = (try? Caps(format.capsText)).flatMap(VideoInfo.init(caps:)).map { (size.width, size.height, $0) }
            }
            guard size.width >= LatencyMarker.width, size.height >= LatencyMarker.height, let video = state.video,
                let number = state.ledger.number(forFrameAt: time)
            else { return nil }
            return (number, video.info)
        }
        guard let (number, video) = marked, let copy = frame.copyOfMetadata() else { return frame }
        let isStamped = copy.withLuma(video, writable: true) { LatencyMarker.stamp(number, onto: $0) }
        return isStamped == true ? copy : frame
    }

    // MARK: What comes back (the decoder's thread)

    /// Nil: the picture may go on as it is.
    func read(_ picture: Buffer, _ video: VideoInfo) -> Buffer? {
        guard video.hasPlainLuma else { return nil }
        let found = picture.withLuma(video, writable: false) { LatencyMarker.find(in: $0) } ?? nil
        let now = timing.element.unowned.currentRunningTime
        let (isOurs, sentAt, covering) = state.withLock { state -> (Bool, ClockTime?, Buffer?) in
            guard let found, state.ledger.contains(found.number) else { return (false, nil, nil) }
            return (true, state.ledger.answer(found.number), state.picture)
        }
        guard isOurs, let found else {
            settleWithoutAnswer(picture)
            return nil
        }
        if let sentAt, let arrival = picture.pts { settle(sentAt: sentAt, arrival: arrival, now: now) }
        guard let copy = picture.copyOfMetadata() else { return nil }
        let isCovered = copy.withLuma(video, writable: true) { luma -> Bool in
            let isDone = covering?.withLuma(video, writable: false) { other -> Bool in
                LatencyMarker.cover(found, in: luma, with: other)
                return true
            }
            if isDone != true { LatencyMarker.cover(found, in: luma, with: nil) }
            return true
        }
        state.withLock { $0.picture = copy }
        return isCovered == true ? copy : nil
    }

    private func settle(sentAt: ClockTime, arrival: ClockTime, now: ClockTime?) {
        let delay = state.withLock { $0.ledger.measured(Int64(clamping: arrival) &- Int64(clamping: sentAt)) }
        if let now { timing.measured(Int64(clamping: now) &- Int64(clamping: sentAt)) }
        timing.settle(delay, rank: rank)
    }

    private func settleWithoutAnswer(_ picture: Buffer) {
        let wasSilent = timing.isSilent
        let (isOver, hasSent, lag) = state.withLock { state in
            state.picture = picture
            // Where silence is known, or nothing is sent, the first picture is as good as the last of them.
            let isFirst = (wasSilent || !state.hasSent) && !state.isEstimated && state.ledger.delay == nil
            if isFirst { state.isEstimated = true }
            return (isFirst || state.hasSent && state.ledger.pictureWithoutNumber(), state.hasSent, state.lag)
        }
        guard isOver else { return }
        // Somebody else's pictures: all that is known of them is when they come.
        guard hasSent else { return timing.settle(0, rank: rank) }
        timing.unanswered()
        askRoundTrip { [rank, timing] roundTrip in
            timing.settle(lag &+ Int64(clamping: (roundTrip ?? .zero).clockTime), rank: rank)
        }
    }
}

extension Buffer {
    /// Nil when the picture cannot be mapped. Memory that others hold as well is copied before it is written.
    fileprivate func withLuma<R>(_ video: VideoInfo, writable: Bool, _ body: (LatencyMarker.Luma) -> R) -> R? {
        let result = withVideoPlanes(video, writable: writable) { planes -> R? in
            guard let plane = planes.first,
                let luma = LatencyMarker.Luma(
                    base: plane.base, stride: plane.stride, width: video.width, height: video.height)
            else { return nil }
            return body(luma)
        }
        return result ?? nil
    }
}
