import GStreamerKit
import Testing

/// What a state gives up may call the state's owner when it is released.
@Suite(.timeLimit(.minutes(1))) struct StateLockTests {
    private struct State {
        var held: Releasing?
        var list: [Releasing] = []
        var count = 0
    }

    private final class Releasing: Sendable {
        private let lock: StateLock<State>
        init(_ lock: StateLock<State>) { self.lock = lock }
        deinit { lock.withLock { $0.count += 1 } }
    }

    private let lock = StateLock(State())

    private func release(_ change: (inout State) -> Void) -> Int {
        lock.withLock { $0.held = Releasing(lock) }
        for _ in 0..<3 { lock.withLock { $0.list.append(Releasing(lock)) } }
        lock.withLock(change)
        return lock.withLock(\.count)
    }

    @Test func eachWayToGiveSomethingUpIsSafe() {
        #expect(release { $0.held = nil } == 1)
        #expect(release { $0.held = $0.list.first } == 2, "the one that a set-up replaces, and this one")
        #expect(release { $0.list.removeFirst() } == 3)
        #expect(release { $0.list.removeAll() } > 6)
        #expect(release { $0 = State(count: $0.count) } > 10)
    }

    @Test func whatIsHandedOutLivesOn() {
        lock.withLock { $0.held = Releasing(lock) }
        let taken = lock.withLock { state -> Releasing? in
            defer { state.held = nil }
            return state.held
        }
        #expect(lock.withLock(\.count) == 0)
        withExtendedLifetime(taken) {}
    }
}
