import DecartProtocol

package struct KeyPolicy: Sendable {
    /// Nil: any key that is not empty.
    package var accepted: Set<String>?
    package var rejected: Set<String>
    /// The stand-in's own client tokens, which it accepts beside `accepted`.
    var clientTokens: ClientTokens?

    package init(accepted: Set<String>? = nil, rejected: Set<String> = []) {
        self.accepted = accepted
        self.rejected = rejected
    }

    func admits(_ key: String?) -> Bool {
        guard let key, !key.isEmpty, !rejected.contains(key) else { return false }
        if let isValid = clientTokens?.admits(key, now: WallClock.seconds) { return isValid }
        return accepted?.contains(key) ?? true
    }
}

extension KeyPolicy: Redacted {
    package var description: String { accepted == nil ? "any key" : "<redacted>" }
}
