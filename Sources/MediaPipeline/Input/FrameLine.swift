import Synchronization

/// Keeps the order of frames that come from several threads without holding a lock during delivery: while one thread
/// delivers, the others leave their frames to it.
package final class FrameLine<Frame: Sendable>: Sendable {
    private struct State {
        var waiting: [Frame] = []
        var isBusy = false
    }
    private let state = Mutex(State())
    /// Frames that may wait while a thread delivers.
    private static var capacity: Int { 16 }
    /// Frames that a thread delivers in a row; then it returns to its own work and the next caller delivers the rest.
    private static var share: Int { 8 }

    package init() {}

    /// - Parameters:
    ///   - make: returns the next frame, if there is one. Runs with the lock held, so it must not call out.
    ///   - deliver: called with one frame after another, on one thread at a time.
    /// - Returns: false if the frame is dropped because too many wait.
    package func pass(_ make: () -> Frame?, deliver: (Frame) -> Void) -> Bool {
        let (isTaken, isOurs) = state.withLock { state in
            guard let frame = make() else { return (true, false) }
            guard state.waiting.count < Self.capacity else { return (false, false) }
            state.waiting.append(frame)
            return (true, !exchange(&state.isBusy, with: true))
        }
        guard isOurs else { return isTaken }
        var left = Self.share
        while let frame = next(left) {
            deliver(frame)
            left -= 1
        }
        return true
    }

    /// Drops the frames that wait for the next caller.
    package func clear() {
        // Released outside of the lock.
        _ = state.withLock { exchange(&$0.waiting, with: []) }
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
