package import DecartProtocol

/// The layer or service that fails, in the order of the stack. The raw value is the exit code of `decart-check`.
package enum Cause: Int32, Sendable, CaseIterable {
    case dns = 2
    case tcp, tls, service, key, limit, udp, turn, session

    /// The name in JSON and in the manual.
    package var name: String { String(describing: self) }
}

package struct ProbeResult: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case ok
        case failed(Cause)
        case notTried
    }

    package var kind: ProbeKind
    /// The host and port or the server, without credentials.
    package var target: String
    package var outcome: Outcome
    /// nil if the probe was not tried.
    package var duration: Duration?
    /// The finding and its remedy, for people. Without secrets.
    package var message: String
    /// The account's sessions, if the service has reported them.
    package var quota: RealtimeQuota?

    package init(_ kind: ProbeKind, _ target: String, _ outcome: Outcome, _ duration: Duration?, _ message: String) {
        self.kind = kind
        self.target = target
        self.outcome = outcome
        self.duration = duration
        self.message = message
    }

    package static func notTried(_ kind: ProbeKind, _ target: String, _ message: String) -> ProbeResult {
        ProbeResult(kind, target, .notTried, nil, message)
    }

    package var failure: Cause? { if case .failed(let cause) = outcome { cause } else { nil } }
}

/// The probes, in the order of the stack.
package enum ProbeKind: String, Sendable, CaseIterable {
    case dns, tcp, tls, key, stun, turn, session

    package var title: String { self == .key || self == .session ? rawValue : rawValue.uppercased() }
}

extension [ProbeResult] {
    /// The first failing cause in the order of the stack; nil if nothing failed.
    package var cause: Cause? { compactMap(\.failure).min { $0.rawValue < $1.rawValue } }

    /// Replaces failures that only follow from an earlier one: without the name there is no TCP connection.
    package func withoutConsequences() -> [ProbeResult] {
        var result = self
        let stack: [(kind: ProbeKind, reason: String)] = [
            (.dns, "the name lookup failed"), (.tcp, "the TCP connection failed"), (.tls, "TLS failed"),
        ]
        for (kind, reason) in stack {
            guard result.contains(where: { $0.kind == kind && $0.failure != nil }) else { continue }
            let later = ContiguousArray(ProbeKind.allCases.drop { $0 != kind }.dropFirst())
            for index in result.indices where later.contains(result[index].kind) {
                guard ![.stun, .turn].contains(result[index].kind), result[index].failure != nil else { continue }
                result[index].outcome = .notTried
                result[index].duration = nil
                result[index].message = "Not tried: \(reason)."
            }
        }
        return result
    }
}

extension Duration {
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        return Int(clamping: seconds &* 1000 &+ attoseconds / 1_000_000_000_000_000)
    }
}
