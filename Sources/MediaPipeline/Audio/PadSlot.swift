/// The place of a pad that has one name. The session adds and removes it, the end of the stream adds it, and a change of
/// state removes it, each on a thread of its own: one of them at a time touches the element, and what came meanwhile follows.
/// A value: its owner acts.
package struct PadSlot<Request: Sendable>: Sendable {
    private enum Phase: Sendable {
        case free, shown
        /// A thread adds it; another one may have asked to remove it.
        case adding(isUnwanted: Bool)
        /// A thread removes it; another one may have asked to add it.
        case removing(next: Request?)
    }
    private var phase = Phase.free
    /// Between READY to PAUSED and PAUSED to READY.
    private var isUp = false

    package init() {}

    package mutating func start() { isUp = true }

    package mutating func stop() {
        isUp = false
        if case .removing = phase { phase = .removing(next: nil) }
    }

    /// - Returns: true if the caller is to add the pad, and to call `added` then.
    package mutating func mayAdd(_ request: Request) -> Bool {
        guard isUp else { return false }
        switch phase {
        case .free:
            phase = .adding(isUnwanted: false)
            return true
        case .removing: phase = .removing(next: request)
        case .adding: phase = .adding(isUnwanted: false)
        case .shown: break
        }
        return false
    }

    /// - Returns: true if the caller is to remove the pad again.
    package mutating func added() -> Bool {
        guard case .adding(let isUnwanted) = phase else { return false }
        phase = .shown
        return isUnwanted || !isUp
    }

    /// The pad could not be made.
    package mutating func failed() { phase = .free }

    /// - Returns: true if the caller is to remove the pad, and to call `removed` then.
    package mutating func mayRemove() -> Bool {
        switch phase {
        case .shown:
            phase = .removing(next: nil)
            return true
        case .adding: phase = .adding(isUnwanted: true)
        case .removing: phase = .removing(next: nil)
        case .free: break
        }
        return false
    }

    /// - Returns: what the caller is to add now.
    package mutating func removed() -> Request? {
        guard case .removing(let next) = phase else { return nil }
        phase = .free
        return isUp ? next : nil
    }
}
