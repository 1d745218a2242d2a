// Consent checks (RFC 7675) of our own: libnice has two kinds, and neither can be used. With
// NICE_AGENT_OPTION_CONSENT_FRESHNESS it fails 10 s after the last response, which lost 6 of 9 sessions at 5 to 10 % loss;
// with keepalive-conncheck it fails after the retransmissions of one check, and for good. libnice drops the responses to
// checks that are not its own, so `ICEAgentCore` reads them before libnice does.
private import CNice

/// Builds connectivity checks for the selected pair, and recognises their responses. Belongs to the network thread.
package final class ConsentChecks {
    /// Responses to older checks prove nothing.
    private static let maximumInFlight = 24
    private static let maximumSize = 512
    private let memory: STUNMemory
    private let username: [UInt8]
    let tieBreaker = UInt64.random(in: 0...UInt64.max)
    /// The transactions, with the time of the request.
    private var inFlight: [(id: [UInt8], sentAt: Duration)] = []

    package init(local: String, remote: String, remotePassword: String) {
        memory = STUNMemory(password: remotePassword, isCheck: true)
        username = Array("\(remote):\(local)".utf8)
    }

    /// Calls `body` with another check; libnice's limit of checks in flight is never reached.
    /// - Parameter nominates: the check selects its pair (USE-CANDIDATE).
    package func withCheck(
        isControlling: Bool, nominates: Bool = false, now: Duration, _ body: (UnsafeRawBufferPointer) -> Void
    ) {
        if inFlight.count == Self.maximumInFlight {
            var oldest = inFlight.removeFirst().id
            stun_agent_forget_transaction(memory.agent, &oldest)
        }
        withUnsafeTemporaryAllocation(byteCount: Self.maximumSize, alignment: 8) { buffer in
            guard let bytes = buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
            var message = StunMessage()
            // The priority of a peer-reflexive candidate (RFC 8445 §7.1.1).
            let length = stun_usage_ice_conncheck_create(
                memory.agent, &message, bytes, buffer.count, username, username.count, memory.password.baseAddress,
                memory.password.count, nominates, isControlling, 110 << 24 | 0xffff << 8 | 255, tieBreaker, nil,
                STUN_USAGE_ICE_COMPATIBILITY_RFC5245)
            guard length >= 20, length <= buffer.count else { return }
            inFlight.append((Array(buffer[4..<20]), now))
            body(UnsafeRawBufferPointer(rebasing: buffer[..<length]))
        }
    }

    /// True if the datagram looks like the response to a check in flight.
    func mayBeResponse(_ datagram: UnsafeRawBufferPointer) -> Bool {
        guard datagram.count >= 20, datagram[0] == 1 else { return false }
        return inFlight.contains { $0.id.elementsEqual(datagram[4..<20]) }
    }

    package var isWaiting: Bool { !inFlight.isEmpty }

    /// Returns the round-trip time if the datagram is the authenticated success response to a check in flight; nil otherwise.
    /// An error confirms nothing, and its check stays in flight: 400 and 401 have no MESSAGE-INTEGRITY (RFC 8489 §9.1.4), so
    /// any host on the path can send them, and 403 revokes consent (RFC 7675 §5.2).
    package func roundTrip(of datagram: UnsafeMutableRawBufferPointer, now: Duration) -> Duration? {
        guard datagram.count >= 20, datagram.count <= 2048, datagram[0] == 1, datagram[1] == 1 else { return nil }
        guard let index = inFlight.firstIndex(where: { $0.id.elementsEqual(datagram[4..<20]) }) else { return nil }
        var message = StunMessage()
        let verdict = stun_agent_validate(
            memory.agent, &message, datagram.baseAddress?.assumingMemoryBound(to: UInt8.self), datagram.count, nil, nil)
        guard verdict == STUN_VALIDATION_SUCCESS else { return nil }
        return max(now - inFlight.remove(at: index).sentAt, .zero)
    }
}
