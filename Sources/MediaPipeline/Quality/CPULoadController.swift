// Lowers the frame rate that is sent if this machine's CPU does not carry it, and raises it again: a value on virtual
// time. It judges the two threads on which the video depends, the one that converts, encodes and sends, and the one that
// decodes, by the time for which they work on frames, which includes waiting for a processor. Only the frame rate gives
// way: to scale a frame down takes as much CPU as the default encoders need for it.

package struct CPULoadController: Sendable {
    /// Counters of one moment, since any fixed time.
    package struct Reading: Sendable {
        /// Time for which the thread that converts, encodes and sends has worked.
        package var sending: Duration = .zero
        /// Time for which the thread that decodes has worked.
        package var receiving: Duration = .zero
        /// The longest time for which one of these threads worked without a pause since the previous reading.
        package var longestWork: Duration = .zero
        package var framesIn: UInt64 = 0
        package var framesSent: UInt64 = 0
        /// Frames lost because this machine was busy.
        package var framesLost: UInt64 = 0

        package init() {}
    }

    private struct Window {
        var seconds: Double
        /// Fractions of the time for which the threads worked.
        var sending: Double
        var receiving: Double
        var framesIn: Double
        var framesSent: Double
        var framesLost: Double
        /// The longest time for which one of the threads worked without a pause.
        var longestWork: Duration

        var load: Double { max(sending, receiving) }
        /// Work for a frame, seconds.
        var work: Double { load * seconds / max(framesSent, 1) }
        var loss: Double { framesLost / max(framesSent + framesLost, 1) }

        /// Frames are lost while their thread is busy, or the decoder's thread has no time left. A live input that sends
        /// bursts loses frames on an idle machine too, and another input waits.
        func isOverused(isReduced: Bool) -> Bool {
            // A reduced frame rate is to leave some time, without which the frames are late.
            if isReduced { return loss > 0 && sending >= 0.35 || load >= 0.95 }
            return loss >= 0.1 && sending >= 0.35 || receiving >= 0.95
        }

        /// True if at this frame rate some frame had still been in work when the next one came. A container's quota causes
        /// that now and then, also at a frame rate that it carries.
        func delaysFrames(at frameRate: Double) -> Bool { longestWork * frameRate > .seconds(1) }

        init(from first: Reading, to last: Reading, _ time: Duration, longestWork: Duration) {
            self.longestWork = longestWork
            func count(_ path: KeyPath<Reading, UInt64>) -> Double {
                Double(last[keyPath: path] &- min(first[keyPath: path], last[keyPath: path]))
            }
            seconds = time / .seconds(1)
            // Work counts when it ends, so that some of it may belong to the window before.
            sending = min((last.sending - first.sending) / time, 1)
            receiving = min((last.receiving - first.receiving) / time, 1)
            (framesIn, framesSent, framesLost) = (count(\.framesIn), count(\.framesSent), count(\.framesLost))
        }
    }

    /// Windows of overuse in a row. One alone says little about the frame rate that a quota carries.
    private struct Overuse {
        private(set) var windows = 0
        private var framesSent = 0.0
        private var seconds = 0.0

        var frameRate: Double { framesSent / max(seconds, .leastNonzeroMagnitude) }

        mutating func add(_ window: Window) {
            windows += 1
            framesSent += window.framesSent
            seconds += window.seconds
        }
    }

    private static let lowestShare = 1.0 / 6
    /// A step down leaves some of the time free, so that the queues stay empty.
    private static let carriedShare = 0.92
    /// A step down if the decoder's thread is busy, whose frame rate is not known; and the inverse of a step up.
    private static let step = 2.0 / 3
    private static let windowLength = Duration.seconds(1)
    /// A longer window means that the process was stopped, or that nothing was sent.
    private static let longestWindow = Duration.milliseconds(2500)
    /// Windows of overuse in a row before a step down: other processes may need the CPU for some seconds.
    private static let windowsDown = 4
    /// The same below the full frame rate. Soon after a step up, one suffices.
    private static let windowsDownFurther = 3
    /// A step down within this time shows that the step up before it was wrong.
    private static let trial = Duration.seconds(5)
    /// No other step up is made for this long then. With the windows of each step, the full rate is back within 10 s.
    private static let hold = Duration.seconds(5)
    /// The CPU is free again if a frame takes at most this multiple of the work that it took before the overuse.
    private static let usualWorkMargin = 1.5
    /// Such windows before a step up; after the first step, one suffices. Within a quota, two or three in a row come by
    /// chance, and each wrong step up delays frames.
    private static let freeWindows = 4
    /// If it is not, a step up is made after some windows in which the load would have stayed below this one at the
    /// higher frame rate: the frames may have become more complex. Twice as many windows after each wrong step.
    private static let highestLoad = 0.6
    private static let windowsUp = (first: 8, most: 64)

    private let highestRate: Double
    /// Frames a second of the input when the overuse began.
    private var inputRate: Double
    /// Fraction of the frames that the CPU carries; 1: all.
    package private(set) var share = 1.0
    private var window: (start: Duration, reading: Reading)?
    /// The longest work without a pause since the current window began.
    private var longestWork = Duration.zero
    private var overuse = Overuse()
    private var calmWindows = 0
    private var windowsUp = Self.windowsUp.first
    private var lastStepUp: (time: Duration, from: Double)?
    private var holdEnds: Duration?
    /// Work for a frame at the full frame rate without overuse, seconds, smoothed.
    private var usualWork: Double?

    /// - Parameter frameRate: the highest frame rate that is sent.
    package init(frameRate: Int) {
        highestRate = Double(max(frameRate, 1))
        inputRate = highestRate
    }

    /// Frames that may be sent in a second; nil: no limit.
    package var frameRate: Int? {
        guard share < 1 else { return nil }
        return max(1, Int((inputRate * share).rounded()))
    }

    /// False for a frame in mid-window, for which `frame` need not be called. `now` is monotonic from any origin.
    package func needsReading(at now: Duration) -> Bool { window.map { now - $0.start >= Self.windowLength } ?? true }

    /// Takes the counters at a frame.
    /// - Returns: true if `frameRate` has changed.
    package mutating func frame(_ reading: Reading, now: Duration) -> Bool {
        longestWork = max(longestWork, reading.longestWork)
        guard let begun = window else {
            window = (now, reading)
            return false
        }
        let time = now - begun.start
        guard time >= Self.windowLength else { return false }
        window = (now, reading)
        defer { longestWork = .zero }
        guard time <= Self.longestWindow else {
            (overuse, calmWindows) = (Overuse(), 0)
            return false
        }
        let before = share
        judge(Window(from: begun.reading, to: reading, time, longestWork: longestWork), now)
        return share != before
    }

    private mutating func judge(_ window: Window, _ now: Duration) {
        let isTrial = isTrial(now)
        guard !window.isOverused(isReduced: share < 1) && !(isTrial && window.delaysFrames(at: inputRate * share))
        else {
            calmWindows = 0
            overuse.add(window)
            let needed = isTrial ? 1 : share < 1 ? Self.windowsDownFurther : Self.windowsDown
            if overuse.windows >= needed { stepDown(window, now) }
            return
        }
        overuse = Overuse()
        if share < 1 { return considerStepUp(window, now) }
        if window.framesSent >= 1 { usualWork = usualWork.map { 0.9 * $0 + 0.1 * window.work } ?? window.work }
        if !isTrial { windowsUp = Self.windowsUp.first }
    }

    private func isTrial(_ now: Duration) -> Bool { lastStepUp.map { now - $0.time < Self.trial } ?? false }

    /// To almost the frame rate that has been sent, so that the first step suffices, or back from a wrong step up.
    private mutating func stepDown(_ window: Window, _ now: Duration) {
        defer { overuse = Overuse() }
        if let lastStepUp, isTrial(now) {
            windowsUp = min(2 * windowsUp, Self.windowsUp.most)
            holdEnds = now + Self.hold
            (share, self.lastStepUp) = (lastStepUp.from, nil)
            return
        }
        lastStepUp = nil
        if share == 1 { inputRate = min(highestRate, window.framesIn / window.seconds) }
        let carried = Self.carriedShare * overuse.frameRate / max(inputRate, 1)
        let wanted = window.framesLost > 0 ? min(carried, Self.carriedShare * share) : Self.step * share
        share = max(Self.lowestShare, wanted)
    }

    private mutating func considerStepUp(_ window: Window, _ now: Duration) {
        // Avoids a last step of less than 15 %.
        let next = share / Self.step > 0.85 ? 1 : share / Self.step
        let isFree = usualWork.map { window.work <= Self.usualWorkMargin * $0 } ?? false
        guard !window.delaysFrames(at: inputRate * next), isFree || window.load / share * next <= Self.highestLoad
        else {
            calmWindows = 0
            return
        }
        calmWindows += 1
        let needed = !isFree ? windowsUp : isTrial(now) ? 1 : Self.freeWindows
        guard calmWindows >= needed, holdEnds.map({ now >= $0 }) ?? true else { return }
        (calmWindows, lastStepUp, holdEnds) = (0, (now, share), nil)
        share = next
    }
}
