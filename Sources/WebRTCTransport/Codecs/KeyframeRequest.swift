internal import Synchronization

/// A request for a keyframe that waits for the next frame. Any thread.
final class KeyframeRequest: Sendable {
    enum Kind: UInt8, AtomicRepresentable {
        case none
        /// Waits until enough time has passed since the last keyframe.
        case paced
        case immediate
    }
    private let kind = Atomic(Kind.none)

    func make(_ wanted: Kind) {
        // A paced request must not weaken an immediate one.
        if wanted == .immediate {
            kind.store(.immediate, ordering: .relaxed)
        } else {
            _ = kind.compareExchange(expected: .none, desired: wanted, ordering: .relaxed)
        }
    }

    /// - Parameter isDue: enough time has passed since the last keyframe.
    /// - Returns: true if the next frame must be a keyframe; the request is then fulfilled.
    func consume(isDue: Bool) -> Bool {
        let waiting = kind.load(ordering: .relaxed)
        guard waiting == .immediate || (waiting == .paced && isDue) else { return false }
        kind.store(.none, ordering: .relaxed)
        return true
    }
}
