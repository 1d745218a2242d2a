// Time in each state, reconnects and billed seconds, over the life of an element, as a value.
import DecartProtocol
import DecartSession

struct SessionHistory: Sendable {
    private var times: [SessionState: Duration] = [:]
    private var state = SessionState.idle
    private var since: Duration
    /// Connections that were lost, each followed by attempts to restore it.
    private(set) var reconnects: UInt64 = 0
    /// The error that caused the latest of them.
    private(set) var lastReason: DecartErrorCode?
    /// The codes of the latest messages that have one.
    var lastError: DecartErrorCode?
    var lastWarning: DecartErrorCode?

    /// Sessions that another one has replaced before their end.
    private(set) var renewals: UInt64 = 0

    /// Seconds billed since the latest start of the element, and before that.
    private var billed = 0.0
    private var billedBefore = 0.0
    var billedSeconds: Double { billedBefore + billed }

    /// - Parameter now: monotonic time, as for all methods.
    init(now: Duration) { since = now }

    mutating func changed(to snapshot: SessionSnapshot, now: Duration) {
        if snapshot.billedSeconds < billed { billedBefore += billed }
        billed = snapshot.billedSeconds
        guard snapshot.state != state else { return }
        times[state, default: .zero] += now - since
        (state, since) = (snapshot.state, now)
        guard snapshot.state == .reconnecting else { return }
        reconnects &+= 1
        lastReason = snapshot.lastError?.code ?? lastReason
    }

    mutating func renewed() { renewals &+= 1 }

    func time(in wanted: SessionState, now: Duration) -> Duration {
        (times[wanted] ?? .zero) + (wanted == state ? now - since : .zero)
    }
}
