/// A fault as asked for: `NAME[:key=value,…]`.
package struct Fault: Sendable, Equatable {
    package let kind: FaultKind
    /// Seconds after the session opened (media: after the first picture; refuse: from now).
    package var at: Double?
    /// Seconds that it lasts.
    package var `for`: Double?
    /// For so many connections.
    package var count: Int?
    /// From this connection on, counted from 1.
    package var after: Int?
    package var n: Int?
    /// Seconds.
    package var interval: Double?
    /// Seconds.
    package var delay: Double?
    /// So many acknowledgements are left as they are.
    package var skip: Int?
    package var reason: String?
    package var output: Output?

    package enum Key: String, Sendable, CaseIterable {
        case at, `for`, count, after, n, interval, delay, skip, reason, output
    }

    /// How a service's output comes back when the generation starts again. What a media path does not have is `same`
    /// there: `newSSRC` and `offer` are of direct connections, `republish` and `newSID` of rooms.
    package enum Output: String, Sendable, CaseIterable {
        /// The track goes on as if nothing had been.
        case same
        case newSSRC = "new_ssrc"
        /// The service makes an offer of its own, with the m-lines that there are.
        case offer
        /// On an m-line of its own, which the service offers.
        case newMID = "new_mid"
        /// The track is withdrawn from the room, and published again on the same m-line under its name …
        case republish
        /// … or under another one.
        case newSID = "new_sid"

        /// The track leaves the room at the end of the generation.
        var isWithdrawn: Bool { [.newMID, .republish, .newSID].contains(self) }
    }

    package init(_ kind: FaultKind) {
        self.kind = kind
    }

    /// - Parameter connection: its number, from 1.
    func applies(toConnection connection: Int) -> Bool {
        let first = after ?? 1
        guard connection >= first else { return false }
        return count.map { connection - first < $0 } ?? true
    }
}

extension Fault: CustomStringConvertible {
    /// As it is written.
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
        case .output: output?.rawValue
        }
    }
}

extension Double {
    /// Without a needless ".0".
    var brief: String { Int(exactly: self).map(String.init) ?? String(self) }
}
