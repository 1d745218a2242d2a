package import GStreamerKit
import Synchronization

/// Counts the changes of a stream of frames, by some of their luma samples four times a second.
package final class MotionMeter: Sendable {
    /// Samples in a row and in a column, at the same places of a frame of any size.
    private static let grid = 16
    /// Samples of two frames that differ by more are a change.
    private let tolerance: Int
    private struct State {
        var due = Throttle(.milliseconds(250))
        var samples: [UInt8] = []
        var counts = Counts()
    }
    private let state = Mutex(State())

    package struct Counts: Sendable, Equatable {
        /// Frames that were looked at, and those of them that differed from the one before.
        package var frames: UInt64 = 0
        package var changes: UInt64 = 0

        package init() {}
    }

    package init(tolerance: Int) { self.tolerance = tolerance }

    package var counts: Counts { state.withLock(\.counts) }

    /// Frames without plain 8-bit luma are not counted.
    package func add(_ frame: Buffer, _ video: VideoInfo, now: Duration) {
        guard video.hasPlainLuma, state.withLock({ $0.due.allows(at: now) }), let samples = Self.samples(frame, video)
        else { return }
        state.withLock { state in
            state.counts.frames &+= 1
            let isSame =
                samples.count == state.samples.count
                && zip(samples, state.samples).allSatisfy { abs(Int($0) - Int($1)) <= tolerance }
            guard !isSame else { return }
            state.samples = samples
            state.counts.changes &+= 1
        }
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
