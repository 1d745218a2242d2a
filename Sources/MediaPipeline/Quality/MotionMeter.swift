package import GStreamerKit
import Synchronization

/// Counts the changes of a stream of frames, by some of their luma samples four times a second.
package final class MotionMeter: Sendable {
    /// Samples in a row and in a column, at the same places of a frame of any size.
    private static let grid = 16
    /// Samples of two frames that differ by more are a change.
    private let tolerance: Int
    private let frames = Atomic<UInt64>(0)
    private let changes = Atomic<UInt64>(0)

    /// What was seen last. Each stream of frames has its own, which belongs to the thread that delivers them.
    package struct Sight {
        fileprivate var due = Throttle(.milliseconds(250))
        fileprivate var samples: [UInt8] = []

        package init() {}
    }

    package struct Counts: Sendable, Equatable {
        /// Frames that were looked at, and those of them that differed from the one before.
        package var frames: UInt64 = 0
        package var changes: UInt64 = 0

        package init() {}
    }

    package init(tolerance: Int) { self.tolerance = tolerance }

    package var counts: Counts {
        var counts = Counts()
        // No more changes than frames.
        counts.changes = changes.load(ordering: .acquiring)
        counts.frames = frames.load(ordering: .relaxed)
        return counts
    }

    /// Frames without plain 8-bit luma are not counted.
    package func add(_ frame: Buffer, _ video: VideoInfo, now: Duration, to sight: inout Sight) {
        guard video.hasPlainLuma, sight.due.allows(at: now), let samples = Self.samples(frame, video) else { return }
        frames.wrappingAdd(1, ordering: .relaxed)
        let isSame =
            samples.count == sight.samples.count
            && zip(samples, sight.samples).allSatisfy { abs(Int($0) - Int($1)) <= tolerance }
        guard !isSame else { return }
        sight.samples = samples
        changes.wrappingAdd(1, ordering: .releasing)
    }

    private static func samples(_ frame: Buffer, _ video: VideoInfo) -> [UInt8]? {
        let samples = frame.withVideoFrame(video, writable: false) { frame -> [UInt8]? in
            guard let plane = frame.plane(0), video.width >= grid, video.height >= grid else { return nil }
            return (0..<grid * grid).map { index in
                let (row, column) = (index / grid, index % grid)
                let (y, x) = ((2 * row + 1) * video.height / (2 * grid), (2 * column + 1) * video.width / (2 * grid))
                return plane.base[y * plane.stride + x]
            }
        }
        return samples ?? nil
    }
}
