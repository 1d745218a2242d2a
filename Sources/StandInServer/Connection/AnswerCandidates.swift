import DecartProtocol

/// The candidates of one media path, gathered into its answers. The service's first generation sends none as messages, and
/// its last SDK for Python cannot apply one that comes as a message.
struct AnswerCandidates {
    private var found: [String] = []
    private var isComplete = false
    private var heldAnswers: [String] = []
    /// Answers are not held back, and candidates are messages of their own.
    private var trickles: Bool

    init(trickles: Bool) {
        self.trickles = trickles
    }

    /// - Returns: the messages to send now, as do the other two.
    mutating func add(answer: String) -> [ServerMessage] {
        heldAnswers.append(answer)
        return trickles || isComplete ? releaseAnswers() : []
    }

    /// - Parameter candidate: nil is the end of the candidates.
    mutating func add(_ candidate: CandidateMessage?) -> [ServerMessage] {
        if trickles { return [.iceCandidate(candidate)] }
        guard let candidate else {
            isComplete = true
            return releaseAnswers()
        }
        found.append(candidate.candidate)
        return []
    }

    /// From now on, unless the candidates are complete.
    mutating func trickle() -> [ServerMessage] {
        guard !isComplete else { return [] }
        trickles = true
        return releaseAnswers()
    }

    private mutating func releaseAnswers() -> [ServerMessage] {
        defer { heldAnswers = [] }
        return heldAnswers.map { .answer(sdp: insertCandidates(into: $0)) }
    }

    /// They belong to the m-line that speaks for the bundle: the first one that is not refused (RFC 9143 7.3.1).
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
