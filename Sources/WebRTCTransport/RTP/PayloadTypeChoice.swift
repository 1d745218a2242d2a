/// Tells the media of a kind from RTX, and from packets that were not negotiated: those may not decide which stream is shown.
/// If the remote peer may send one of several codecs, its first packet chooses, and a lasting change is followed. A value; it
/// knows payload types only.
package struct PayloadTypeChoice {
    package enum Verdict: Equatable {
        /// Media of the active type.
        case media
        /// As `media`; it is another type than before.
        case changed
        /// RTX, a type that was not negotiated, or a stray packet of another codec.
        case other
    }

    private let types: Set<Int>
    package private(set) var active: Int?
    /// The latest packet of the active type; nil: none yet.
    private var last: Duration?
    /// Packets since then of the type that came last.
    private var stray = (type: -1, count: 0)
    /// A change is lasting after `row` packets and `silence` without the active type: probes and strays are shorter.
    private static let row = 3
    private static let silence = Duration.milliseconds(500)

    /// Accepts no payload type.
    package init() { types = [] }

    /// - Parameters:
    ///   - expected: the type that is expected first.
    ///   - alternatives: further types in which media may arrive.
    package init(expected: Int, alternatives: [Int] = []) {
        types = Set(alternatives).union([expected])
        active = expected
    }

    /// Classifies a packet by its payload type, and may change the active type.
    package mutating func classify(_ type: Int, now: Duration) -> Verdict {
        guard types.contains(type) else { return .other }
        if type != active, let last {
            stray = (type, type == stray.type ? stray.count + 1 : 1)
            guard stray.count >= Self.row, now - last >= Self.silence else { return .other }
        }
        defer { (active, last, stray) = (type, now, (-1, 0)) }
        return type == active ? .media : .changed
    }
}
