/// Corrupts session descriptions as text, line by line.
enum DescriptionFault {
    static func applyFaults(answer: String, _ plan: FaultPlan) -> String {
        var answer = answer
        for fault in plan.faults {
            switch fault.kind {
            case .sdp(let kind): answer = applyFaults(answer, kind, fault)
            // An answer holds candidates if the fault was injected into a running session.
            case .ice(.none), .ice(.late), .ice(.tcpOnly): answer = withoutCandidates(answer)
            default: break
            }
        }
        return answer
    }

    /// Removes the client's candidates, with which the stand-in could reach the client by itself.
    static func applyFaults(offer: String, _ plan: FaultPlan) -> String {
        plan.isolates ? withoutCandidates(offer) : offer
    }

    private static func applyFaults(_ sdp: String, _ kind: FaultKind.Description, _ fault: Fault) -> String {
        switch kind {
        case .bad:
            return "this is no session description\r\n"
        case .huge:
            let line = "a=x-fault:" + String(repeating: "x", count: 200) + "\r\n"
            // The whole message must stay below 1 MiB, the limit of a message.
            let size = min(fault.n ?? 512 << 10, 900 << 10)
            return sdp + String(repeating: line, count: max(0, size - sdp.utf8.count) / line.utf8.count + 1)
        case .noFingerprint:
            return edit(sdp) { $0.hasPrefix("a=fingerprint:") ? nil : $0 }
        case .badFingerprint:
            let bytes = (0..<32).map { _ in UInt8.random(in: 0...255) }
            let text = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }
            return edit(sdp) {
                $0.hasPrefix("a=fingerprint:") ? "a=fingerprint:sha-256 " + text.joined(separator: ":") : $0
            }
        case .otherCodec:
            return edit(sdp) { line in
                guard line.hasPrefix("a=rtpmap:"), let space = line.firstIndex(of: " ") else { return line }
                return line[...space] + "X-UNKNOWN/90000"
            }
        }
    }

    private static func withoutCandidates(_ sdp: String) -> String {
        edit(sdp) { $0.hasPrefix("a=candidate:") || $0.hasPrefix("a=end-of-candidates") ? nil : $0 }
    }

    private static func edit(_ sdp: String, _ change: (Substring) -> Substring?) -> String {
        sdp.split(whereSeparator: \.isNewline).compactMap(change).map { $0 + "\r\n" }.joined()
    }
}

extension FaultPlan {
    /// True if the fault drops or delays the client's candidates.
    fileprivate var isolates: Bool { contains(.ice(.none)) || contains(.ice(.late)) || contains(.ice(.tcpOnly)) }
}
