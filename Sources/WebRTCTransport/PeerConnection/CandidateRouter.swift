/// Selects the ICE session of each remote candidate by its `ufrag`; without one, a candidate belongs to the remote
/// peer's latest description. Keeps candidates that precede their description.
package struct CandidateRouter {
    private static let limit = 128
    private static let formerLimit = 8
    private var early: [ICECandidate?] = []
    /// Fragments of the sessions that are over.
    private var former: [String] = []

    package init() {}

    /// - Parameters:
    ///   - candidate: nil: the end of candidates.
    ///   - remotes: the remote peer's `ufrag` of each running session, the latest one first; nil: not known yet.
    /// - Returns: the index of the session; nil: the candidate waits, or is dropped.
    package mutating func route(_ candidate: ICECandidate?, remotes: [String?]) -> Int? {
        let fragment = candidate?.session
        let match = remotes.firstIndex { remote in
            remote.map { fragment == nil || $0 == fragment } ?? false
        }
        if let match { return match }
        if let fragment, former.contains(fragment) { return nil }
        if early.count < Self.limit { early.append(candidate) }
        return nil
    }

    /// Call when a session has got its remote description; candidates of other sessions are dropped.
    package mutating func takeEarly() -> [ICECandidate?] {
        defer { early = [] }
        return early
    }

    package mutating func ended(_ remote: String?) {
        guard let fragment = remote else { return }
        if former.count == Self.formerLimit { former.removeFirst() }
        former.append(fragment)
    }
}
