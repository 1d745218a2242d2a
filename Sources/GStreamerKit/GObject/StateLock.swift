public import Synchronization

/// A lock around a state of buffers, events, caps and closures of others. What a change gives up is released after the
/// lock: the last reference of a buffer runs the destroy notify of the application's memory, which may call this element
/// or wait for a thread that does. Inlinable, because frames and packets take it: a call of the generic code looks its types
/// up each time.
// @unchecked: the value is accessed with the lock held only.
public final class StateLock<State>: @unchecked Sendable {
    @usableFromInline let lock = Mutex(())
    @usableFromInline var value: State

    /// A lock around a first state.
    @inlinable public init(_ initial: State) { value = initial }

    /// A result that crosses the lock.
    // @unchecked: the former value is only released, and the type of the result is checked by `withLock`.
    @usableFromInline struct Outcome<Result>: @unchecked Sendable {
        @usableFromInline let result: Result
        @usableFromInline let former: State

        @inlinable init(result: Result, former: State) { (self.result, self.former) = (result, former) }
    }

    /// `body` runs with the lock held, so it must not call out.
    @inlinable public func withLock<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let outcome = lock.withLock { _ -> Outcome<Result> in
            let former = value
            return Outcome(result: body(&value), former: former)
        }
        return withExtendedLifetime(outcome) { outcome.result }
    }

    /// Changes values only, such as counters: `body` gives up no object.
    @inlinable public func adjust<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        lock.withLock { _ in body(&value) }
    }

    /// Reads. Nothing is given up, so that no former value is kept: a copy retains every object of the state.
    @inlinable public func read<Result: Sendable>(_ body: (State) -> Result) -> Result {
        lock.withLock { _ in body(value) }
    }
}
