/// Tells the media of a stream from RTX, and from packets that were not negotiated: those may not decide what is shown.
/// If the remote peer may send one of several codecs, its first packet chooses, and a change is followed at a keyframe, or as
/// soon as it is lasting. A value; it knows payload types only.
package struct PayloadTypeChoice {
    package enum Verdict: Equatable {
        /// Media of the active type.
        case media
        /// As `media`; it is another type than before.
        case changed
        /// RTX, a type that was not negotiated, or a stray packet of another codec.
        case other
    }

    private var types: Set<Int>
    package private(set) var active: Int?
    /// The latest packet of the active type; nil: none yet.
    private var last: Duration?
    private var changed: Duration?
    /// Packets since then of the type that came last.
    private var stray = (type: -1, count: 0)
    /// A change is lasting after `row` packets and `silence` without the active type: probes and strays are shorter.
    private static let row = 3
    private static let silence = Duration.milliseconds(500)
    /// The least interval between two changes that no silence shows, because each one makes a decoder.
    private static let interval = Duration.seconds(1)

    /// Accepts no payload type.
    package init() { types = [] }

    /// - Parameters:
    ///   - expected: the type that is expected first.
    ///   - alternatives: further types in which media may arrive.
    package init(expected: Int, alternatives: [Int] = []) {
        types = Set(alternatives).union([expected])
        active = expected
    }

    /// Other types were negotiated. The active one stays if it is among them.
    package mutating func update(expected: Int, alternatives: [Int] = []) {
        types = Set(alternatives).union([expected])
        if let active, types.contains(active) { return }
        (active, last) = (expected, nil)
    }

    /// Another stream is shown, whose next packet chooses, unless the one before has only just done so.
    package mutating func restart() { last = nil }

    /// Classifies a packet by its payload type, and may change the active type.
    /// - Parameter canFollow: a change of type that begins with this packet needs nothing of what was before it.
    package mutating func classify(_ type: Int, canFollow: Bool = false, now: Duration) -> Verdict {
        guard types.contains(type) else { return .other }
        let isSettled = changed.map { now - $0 >= Self.interval } ?? true
        if type != active, last != nil || !isSettled {
            let since = last ?? now
            last = since
            stray = (type, type == stray.type ? stray.count + 1 : 1)
            let isLasting = stray.count >= Self.row && now - since >= Self.silence
            guard isLasting || canFollow && isSettled else { return .other }
        }
        let isChange = type != active
        (active, last, stray) = (type, now, (-1, 0))
        if isChange { changed = now }
        return isChange ? .changed : .media
    }
}
