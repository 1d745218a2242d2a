package import DecartProtocol

/// Collects the local candidates of one media path and inserts them into its answers. The service sends no candidate
/// messages on direct connections, and its latest Python SDK cannot apply one.
package struct AnswerCandidates {
    private var found: [String] = []
    /// The ICE session of `found`; nil: not known yet.
    private var session: String?
    private var isComplete = false
    private var heldAnswers: [String] = []
    /// A client may offer again before the candidates of an answer are found.
    package static let maximumHeld = 8
    /// True: answers go out at once, and each candidate is a message of its own.
    private var trickles: Bool

    package init(trickles: Bool) {
        self.trickles = trickles
    }

    package mutating func add(answer: String) -> [ServerMessage] {
        begin(answer.split(whereSeparator: \.isNewline).first { $0.hasPrefix("a=ice-ufrag:") }.map { $0.dropFirst(12) })
        heldAnswers.append(answer)
        return trickles || isComplete || heldAnswers.count >= Self.maximumHeld ? releaseAnswers() : []
    }

    /// - Parameter candidate: Nil marks the end of candidates.
    package mutating func add(_ candidate: CandidateMessage?) -> [ServerMessage] {
        if trickles { return [.iceCandidate(candidate)] }
        guard let candidate else {
            isComplete = true
            return releaseAnswers()
        }
        begin(candidate.usernameFragment.map { $0[...] })
        found.append(candidate.candidate)
        return []
    }

    /// An ICE restart gathers again.
    private mutating func begin(_ next: Substring?) {
        guard let next, next != session.map({ $0[...] }) else { return }
        if session != nil { (found, isComplete) = ([], false) }
        session = String(next)
    }

    /// Switches to trickling, unless the candidates are complete, and releases the held answers.
    mutating func trickle() -> [ServerMessage] {
        guard !isComplete else { return [] }
        trickles = true
        return releaseAnswers()
    }

    private mutating func releaseAnswers() -> [ServerMessage] {
        defer { heldAnswers = [] }
        return heldAnswers.map { .answer(sdp: insertCandidates(into: $0)) }
    }

    /// Inserts the candidates into the m-section that carries the bundle's transport: the first one that is not
    /// rejected (RFC 9143 7.3.1).
    private func insertCandidates(into sdp: String) -> String {
        let end = isComplete ? ["a=end-of-candidates"] : []
        var lines = sdp.split(whereSeparator: \.isNewline).map(String.init)
        guard !(found + end).isEmpty, let start = lines.firstIndex(where: Self.isAcceptedMedia) else { return sdp }
        let next = lines[(start + 1)...].firstIndex { $0.hasPrefix("m=") } ?? lines.endIndex
        lines.insert(contentsOf: found.map { "a=" + $0 } + end, at: next)
        return lines.map { $0 + "\r\n" }.joined()
    }

    private static func isAcceptedMedia(_ line: String) -> Bool {
        line.hasPrefix("m=") && line.split(separator: " ").dropFirst().first != "0"
    }
}
