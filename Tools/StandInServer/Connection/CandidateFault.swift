import DecartProtocol

enum CandidateFault {
    static func applyFaults(sent candidate: CandidateMessage?, _ plan: FaultPlan) -> [FaultScript.Step] {
        let step = FaultScript.Step.action(.send(.iceCandidate(candidate)))
        if plan.contains(.ice(.none)) { return [] }
        if let fault = plan.first(.ice(.late)) { return [.later(seconds: fault.delay ?? 5, [step])] }
        if plan.contains(.ice(.tcpOnly)) {
            return [.action(.send(.iceCandidate(candidate.map(overTCP))))]
        }
        // Malformed candidates precede each good one and the end of candidates.
        return plan.contains(.ice(.bad)) ? malformed + [step] : [step]
    }

    static func applyFaults(received action: ControlStateMachine.Action, _ plan: FaultPlan) -> [FaultScript.Step] {
        if plan.contains(.ice(.none)) || plan.contains(.ice(.tcpOnly)) { return [] }
        guard let fault = plan.first(.ice(.late)) else { return [.action(action)] }
        return [.later(seconds: fault.delay ?? 5, [.action(action)])]
    }

    /// Turns a UDP candidate into a passive TCP candidate (RFC 6544 §4.5).
    private static func overTCP(_ candidate: CandidateMessage) -> CandidateMessage {
        var words = candidate.candidate.split(separator: " ").map(String.init)
        if words.count > 2 { words[2] = "TCP" }
        var other = candidate
        other.candidate = (words + ["tcptype", "passive"]).joined(separator: " ")
        return other
    }

    private static let malformed: [FaultScript.Step] = [
        "candidate:", "candidate:1 1 UDP", "no candidate at all",
        "candidate:1 1 UDP 2130706431 300.1.1.1 99999 typ host",
        "candidate:1 1 UDP 99999999999999999999 127.0.0.1 9 typ host", "candidate:1 0 UDP 1 127.0.0.1 0 typ nothing",
        "candidate:1 1 UDP 2130706431 \u{0} 9 typ host", "candidate:" + String(repeating: "9", count: 10_000),
        "candidate:1 1 UDP 2130706431 127.0.0.1 -1 typ host\r\na=ice-pwd:gone",
    ].map { text in
        .action(.send(.iceCandidate(CandidateMessage(candidate: text, sdpMid: "0", sdpMLineIndex: 0))))
    }
}

extension FaultPlan {
    var bendsCandidates: Bool { faults.contains { if case .ice = $0.kind { true } else { false } } }
}
