// Decides which sent frames carry a latency marker, and interprets the markers that come back. A value without a clock:
// time is an argument of each call.
package import GStreamerKit

/// Marks as few frames as keep the delay known: some at the start and after a change, then one every two seconds.
package struct LatencyMarkerScheduler: Sendable {
    private struct Entry {
        var number: UInt16
        var time: ClockTime
        var isAnswered = false
    }
    /// Half a minute at the quick pace: a model may take long for its first frame.
    private static let capacity = 256
    private static let quick: ClockTime = 110_000_000
    private static let slow: ClockTime = 2_000_000_000
    /// Frames marked in a row after the first answer, or after an answer that shows a changed delay.
    package static let burst = 5
    /// Received frames without any answer after which none is expected.
    package static let maximumUnmarked = 30

    private enum Pace {
        /// No answer yet.
        case searching
        case settling(left: Int)
        case keeping
        /// Answers seem to stay away: a few more marks, slowly.
        case doubting(left: Int)
        case silent
    }
    private var pace: Pace
    private var entries: [Entry] = []
    private var nextNumber: UInt16
    private var lastTime: ClockTime?
    private var framesWithoutNumber = 0
    private var delays = DelayFilter(window: LatencyMarkerScheduler.burst)

    /// - Parameter isSilent: the service is known not to return markers.
    package init(firstNumber: UInt16, isSilent: Bool = false) {
        nextNumber = firstNumber
        pace = isSilent ? .silent : .searching
    }

    /// Returns the number to stamp into a frame that is being sent, or nil if it gets none.
    package mutating func number(forFrameAt time: ClockTime) -> UInt16? {
        guard let interval else { return nil }
        if let last = lastTime, time >= last, time &- last < interval { return nil }
        switch pace {
        case .settling(let left): pace = left > 1 ? .settling(left: left - 1) : .keeping
        case .doubting(let left): pace = left > 1 ? .doubting(left: left - 1) : .silent
        case .searching, .keeping, .silent: break
        }
        lastTime = time
        defer { nextNumber &+= 1 }
        if entries.count >= Self.capacity { entries.removeFirst() }
        entries.append(Entry(number: nextNumber, time: time))
        return nextNumber
    }

    private var interval: ClockTime? {
        switch pace {
        case .searching, .settling: Self.quick
        case .keeping, .doubting: Self.slow
        case .silent: nil
        }
    }

    /// True if this scheduler issued the number. Anything else that reads as a marker is part of the image.
    package func contains(_ number: UInt16) -> Bool { entries.contains { $0.number == number } }

    /// Returns the running time of the sent frame with that number; nil if it is unknown or was answered before.
    package mutating func answer(_ number: UInt16) -> ClockTime? {
        guard let index = entries.lastIndex(where: { $0.number == number }), !entries[index].isAnswered else {
            return nil
        }
        entries[index].isAnswered = true
        return entries[index].time
    }

    /// Takes the delay of an answered mark. Returns the filtered delay.
    package mutating func measured(_ delay: Int64) -> Int64 {
        let before = delays.value
        let now = delays.add(delay)
        switch pace {
        case .searching, .doubting, .silent: pace = .settling(left: Self.burst - 1)
        case .keeping:
            if let before, (delay &- before).magnitude > DelayFilter.tolerance { pace = .settling(left: Self.burst) }
        case .settling: break
        }
        return now
    }

    /// Called for each received frame without a number. Returns true once: when no answer is to be expected any more.
    package mutating func frameWithoutNumber() -> Bool {
        guard delays.value == nil, framesWithoutNumber < Self.maximumUnmarked else { return false }
        framesWithoutNumber += 1
        guard framesWithoutNumber == Self.maximumUnmarked else { return false }
        if case .searching = pace { pace = .doubting(left: Self.burst) }
        return true
    }

    package var delay: Int64? { delays.value }
}

/// The median of the last few delays, so that a single late frame has no effect.
package struct DelayFilter: Sendable {
    /// A larger difference, ns, is a change of the delay, not jitter.
    package static let tolerance: UInt64 = 30_000_000
    private let window: Int
    private var samples: [Int64] = []

    package init(window: Int) { self.window = max(1, window) }

    @discardableResult
    package mutating func add(_ sample: Int64) -> Int64 {
        if samples.count >= window { samples.removeFirst() }
        samples.append(sample)
        return value ?? sample
    }

    package var value: Int64? {
        guard !samples.isEmpty else { return nil }
        return samples.sorted()[(samples.count - 1) / 2]
    }

    /// - Parameter fraction: 0...1.
    /// - Returns: nil without a sample.
    package func percentile(_ fraction: Double) -> Int64? {
        guard !samples.isEmpty else { return nil }
        let index = Int((Double(samples.count - 1) * fraction).rounded())
        return samples.sorted()[min(max(index, 0), samples.count - 1)]
    }
}
