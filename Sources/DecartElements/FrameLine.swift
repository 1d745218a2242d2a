import Synchronization

/// Keeps the order of frames that come from several threads, with no lock held while one is delivered: a thread that
/// comes meanwhile leaves its frame to the thread that delivers.
package final class FrameLine<Frame: Sendable>: Sendable {
    private struct State {
        var waiting: [Frame] = []
        var isBusy = false
    }
    private let state = Mutex(State())
    /// Frames that may wait while a thread delivers.
    private static var capacity: Int { 16 }
    /// Frames that a thread delivers before it leaves the rest to the next one: it has work of its own.
    private static var share: Int { 8 }

    package init() {}

    /// - Parameters:
    ///   - make: gives the next frame, if there is one; called with the lock held, so it must not call out.
    ///   - deliver: called with one frame after another, on one thread at a time.
    /// - Returns: false where the frame is dropped, for too many wait.
    package func pass(_ make: () -> Frame?, deliver: (Frame) -> Void) -> Bool {
        let (isTaken, isOurs) = state.withLock { state in
            guard let frame = make() else { return (true, false) }
            guard state.waiting.count < Self.capacity else { return (false, false) }
            state.waiting.append(frame)
            defer { state.isBusy = true }
            return (true, !state.isBusy)
        }
        guard isOurs else { return isTaken }
        var left = Self.share
        while let frame = next(left) {
            deliver(frame)
            left -= 1
        }
        return true
    }

    private func next(_ left: Int) -> Frame? {
        state.withLock { state in
            guard left > 0, !state.waiting.isEmpty else {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
