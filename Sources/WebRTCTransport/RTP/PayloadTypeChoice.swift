/// Tells the media of a kind from RTX, and from packets that were not negotiated: those may not decide which stream is shown.
/// If the remote peer may send one of several codecs, its first packet chooses. A value; it knows payload types only.
package struct PayloadTypeChoice {
    package enum Verdict: Equatable {
        /// Media of the active type.
        case media
        /// As `media`; it is another type than before.
        case changed
        case other
    }

    private var types: Set<Int>
    private var active: Int?

    /// Takes nothing.
    package init() { types = [] }

    /// - Parameters:
    ///   - expected: the type that is expected first.
    ///   - alternatives: further types in which media may arrive.
    package init(expected: Int, alternatives: [Int] = []) {
        types = Set(alternatives).union([expected])
        active = expected
    }

    package mutating func take(_ type: Int) -> Verdict {
        guard types.contains(type) else { return .other }
        defer { (types, active) = ([type], type) }
        return type == active ? .media : .changed
    }
}
