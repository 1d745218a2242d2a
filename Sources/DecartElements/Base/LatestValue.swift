/// Applies values that any thread may set at any time.
package enum LatestValue {
    /// Applies a part of a state, and looks again: of two threads that set it at once, the one that has read the older
    /// value may apply it last.
    package static func apply<State, Part: Equatable>(
        _ part: (State) -> Part, of read: () -> State, _ apply: (State, Part) -> Void
    ) {
        var state = read()
        while true {
            let applied = part(state)
            apply(state, applied)
            state = read()
            guard part(state) != applied else { return }
        }
    }
}
