// Measures the time that an encoder or decoder takes.
package import GStreamerKit
import Synchronization

/// Frames that left an encoder or decoder, and the time that it took for them.
package struct CodingTime: Sendable, Equatable {
    package var frames: UInt64 = 0
    /// Sum over the frames, each from entering the element until leaving it.
    package var total: Duration = .zero
    package init() {}

    package static func + (left: CodingTime, right: CodingTime) -> CodingTime {
        var sum = left
        sum.frames &+= right.frames
        sum.total += right.total
        return sum
    }
}

/// Measures an element that takes a frame for each frame that it makes.
package final class CodingTimer: Sendable {
    private static let maximumPending = 32

    private struct State {
        var pending: [(pts: ClockTime, since: ContinuousClock.Instant)] = []
        /// Added by the element to the times of its input; encoders do so to have room for negative DTS.
        var shift: ClockTime?
        var sum = CodingTime()
    }
    private let state = Mutex(State())

    package init() {}

    package var sum: CodingTime { state.withLock(\.sum) }

    /// Measures `element`, which has the pads `sink` and `src`. One element at a time: the next replaces it.
    package func attach(to element: Element) {
        state.withLock { ($0.pending, $0.shift) = ([], nil) }
        element.staticPad("sink")?.addProbe(.buffer) { [weak self] item in
            if case .buffer(let frame) = item, let pts = frame.pts { self?.entered(pts) }
            return .pass
        }
        element.staticPad("src")?.addProbe(.buffer) { [weak self] item in
            if case .buffer(let frame) = item, let pts = frame.pts { self?.left(pts) }
            return .pass
        }
    }

    private func entered(_ pts: ClockTime) {
        state.withLock { state in
            if state.pending.count >= Self.maximumPending { state.pending.removeFirst() }
            state.pending.append((pts, .now))
        }
    }

    private func left(_ pts: ClockTime) {
        state.withLock { state in
            state.sum.frames &+= 1
            guard let first = state.pending.first else { return }
            let shift = state.shift ?? (pts &- first.pts)
            state.shift = shift
            guard let index = state.pending.firstIndex(where: { $0.pts &+ shift == pts }) else {
                // The shift has changed, or the element makes times of its own: measure by order.
                state.shift = nil
                state.sum.total += ContinuousClock.now - state.pending.removeFirst().since
                return
            }
            state.sum.total += ContinuousClock.now - state.pending[index].since
            // The element has dropped the frames before this one.
            state.pending.removeFirst(index + 1)
        }
    }
}
