import DecartProtocol

/// A fault with its parameters, written as `NAME[:key=value,…]`.
package struct Fault: Sendable, Equatable {
    package let kind: FaultKind
    /// Seconds after the session opened (media faults: after the first frame; `refuse`: from now).
    package var at: Double?
    /// Duration in seconds.
    package var `for`: Double?
    /// Number of connections that the fault applies to.
    package var count: Int?
    /// First connection that the fault applies to, counted from 1.
    package var after: Int?
    package var n: Int?
    package var interval: Double?
    package var delay: Double?
    /// Acknowledgements that pass unchanged before the fault begins.
    package var skip: Int?
    package var reason: String?
    /// One of `ErrorTypes`.
    package var type: String?
    package var output: Output?
    package var codec: RoomCodec?

    package enum Key: String, Sendable, CaseIterable {
        case at, `for`, count, after, n, interval, delay, skip, reason, type, output, codec
    }

    /// Selects how the service's output comes back when the generation restarts. A value that a media path does not
    /// support acts as `same`: `newSSRC` and `offer` need a direct connection, `republish` and `newSID` a room.
    package enum Output: String, Sendable, CaseIterable {
        case same
        case newSSRC = "new_ssrc"
        /// The service sends an offer of its own with the existing m-lines.
        case offer
        /// The output moves to a new m-line, which the service offers.
        case newMID = "new_mid"
        /// The room's track is unpublished, then published again on the same m-line with the same SID.
        case republish
        /// The same as `republish`, with a new track SID.
        case newSID = "new_sid"

        /// True if the track is unpublished when the generation ends.
        var isWithdrawn: Bool { [.newMID, .republish, .newSID].contains(self) }
    }

    package init(_ kind: FaultKind) {
        self.kind = kind
    }

    /// - Parameter connection: Number of the connection, from 1.
    func applies(toConnection connection: Int) -> Bool {
        let first = after ?? 1
        guard connection >= first else { return false }
        return count.map { connection - first < $0 } ?? true
    }
}

extension Fault: CustomStringConvertible {
    /// The text that parses to this fault.
    package var description: String {
        let pairs = Key.allCases.compactMap { key in text(key).map { "\(key.rawValue)=\($0)" } }
        return pairs.isEmpty ? kind.name : kind.name + ":" + pairs.joined(separator: ",")
    }

    private func text(_ key: Key) -> String? {
        switch key {
        case .at: at?.brief
        case .for: self.for?.brief
        case .count: count.map(String.init)
        case .after: after.map(String.init)
        case .n: n.map(String.init)
        case .interval: interval?.brief
        case .delay: delay?.brief
        case .skip: skip.map(String.init)
        case .reason: reason
        case .type: type
        case .output: output?.rawValue
        case .codec: codec?.rawValue
        }
    }
}
