import Synchronization

/// Keeps an object alive until its own callback releases it.
final class Holder<Value: Sendable>: Sendable {
    private let value = Mutex<Value?>(nil)

    func store(_ value: Value) { self.value.withLock { $0 = value } }
    func take() -> Value? { value.withLock { $0.take() } }
}
