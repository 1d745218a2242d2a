import Synchronization

extension Mutex where Value: Sendable {
    /// Replaces the value, unless `next` returns nil.
    /// - Returns: true if the value was replaced.
    func advance(_ next: (Value) -> Value?) -> Bool {
        withLock { value in
            guard let other = next(value) else { return false }
            value = other
            return true
        }
    }
}
