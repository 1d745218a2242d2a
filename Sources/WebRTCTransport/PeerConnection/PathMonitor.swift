// Judges a connected path by what arrives authenticated: SRTP, SRTCP, and responses to consent checks (RFC 7675). A
// value: `now` and randomness are arguments.

package struct PathMonitor: Sendable {
    package enum Verdict: Sendable, Equatable {
        /// Send a consent check.
        case check
        case disconnected
        case reconnected
        /// Nothing has arrived for `consentTimeout`.
        case expired
    }

    /// RFC 7675 §5.1.
    package static let consentTimeout = Duration.seconds(30)
    /// Silence after which a path that was busy is suspicious, and then lost.
    private static let suspicion = Duration.seconds(1)
    private static let busyLimit = Duration.seconds(2)
    /// Silence of media and feedback, while we send and the peer answers checks, after which the path is lost. A peer
    /// that pauses its media still sends feedback: where that came often, its absence means more.
    private static let mediaLimit = Duration.milliseconds(2500)
    private static let feedbackLimit = Duration.milliseconds(1200)
    /// Silence after which a path without media is lost: at least three checks in a row have failed.
    private static let idleLimit = Duration.seconds(18)
    /// RFC 7675 §5.1 recommends 5 s. With 10 s, a session in standby costs less; a check without an answer is repeated.
    private static let interval = Duration.seconds(10)
    private static let repetition = Duration.seconds(2)
    private static let probeInterval = Duration.milliseconds(500)
    private static let lostInterval = Duration.seconds(1)
    /// Packets a second from which on silence means something.
    private static let busyRate = 5
    /// A longer time between two ticks means that this process was suspended.
    private static let longestTick = Duration.seconds(2)

    package enum Arrival: Sendable {
        case media
        case feedback
        /// The response to a check.
        case consent
    }

    /// Packets in the present and the previous second of arrivals.
    private struct Rate {
        private var count = 0
        private var lastCount = 0
        private var since: Duration

        init(now: Duration) { since = now }

        mutating func arrived(now: Duration) {
            let elapsed = now - since
            if elapsed >= .seconds(1) {
                lastCount = elapsed < .seconds(2) ? count : 0
                (count, since) = (0, now)
            }
            count &+= 1
        }

        var isBusy: Bool { max(count, lastCount) >= PathMonitor.busyRate }
    }

    package private(set) var isDisconnected = false
    /// Checks cannot reach the path, so only media tell: without them, silence means nothing.
    package var cannotCheck = false
    private var isExpired = false
    private var lastArrival: Duration
    /// The latest SRTP or SRTCP. Behind a NAT that forgot its mapping, only responses to checks arrive: the peer answers
    /// the new address, and sends media to the old one.
    private var lastMedia: Duration
    private var mediaIsLost = false
    private var lastTick: Duration
    private var nextCheck: Duration
    private var lastCheck = Duration.zero
    /// SRTP and SRTCP.
    private var packets: Rate
    private var feedback: Rate

    private let consentTimeout: Duration

    package init(now: Duration, consentTimeout: Duration = PathMonitor.consentTimeout) {
        self.consentTimeout = consentTimeout
        (lastArrival, lastMedia, lastTick) = (now, now, now)
        (packets, feedback) = (Rate(now: now), Rate(now: now))
        // NACKs need the round trip that the check measures.
        nextCheck = now
    }

    private var isBusy: Bool { packets.isBusy }

    package mutating func arrived(_ arrival: Arrival, now: Duration) -> Verdict? {
        lastArrival = now
        if arrival != .consent {
            (lastMedia, mediaIsLost) = (now, false)
            packets.arrived(now: now)
            if arrival == .feedback { feedback.arrived(now: now) }
        }
        guard isDisconnected, !mediaIsLost else { return nil }
        isDisconnected = false
        return .reconnected
    }

    /// Call when the remote peer has closed the path.
    /// - Returns: true if it was not lost before.
    package mutating func closed() -> Bool { exchange(&isDisconnected, with: true) == false }

    /// Call several times a second.
    /// - Parameters:
    ///   - jitter: 0…1 at random.
    ///   - sends: RTP was sent since the last tick, so feedback is due.
    package mutating func tick(now: Duration, jitter: Double, sends: Bool = false) -> [Verdict] {
        guard !isExpired else { return [] }
        // Packets that arrived meanwhile have not been read yet.
        if now - lastTick > Self.longestTick {
            lastArrival += now - lastTick
            lastMedia += now - lastTick
        }
        lastTick = now
        let silence = now - lastArrival
        guard silence < consentTimeout || cannotCheck && !isBusy else {
            isExpired = true
            return [.expired]
        }
        var verdicts: [Verdict] = []
        if !isDisconnected, isBusy || !cannotCheck, silence >= (isBusy ? Self.busyLimit : Self.idleLimit) {
            isDisconnected = true
            verdicts.append(.disconnected)
        } else if !isDisconnected, sends, isBusy,
            now - lastMedia >= (feedback.isBusy ? Self.feedbackLimit : Self.mediaLimit)
        {
            (isDisconnected, mediaIsLost) = (true, true)
            verdicts.append(.disconnected)
        }
        let probes = isDisconnected || isBusy && silence >= Self.suspicion
        let interval =
            isDisconnected ? Self.lostInterval : probes ? Self.probeInterval : Self.interval * (0.8 + 0.4 * jitter)
        // The check that is planned may lie seconds ahead when the silence begins.
        if probes { nextCheck = min(nextCheck, now + interval) }
        if lastArrival < lastCheck { nextCheck = min(nextCheck, lastCheck + Self.repetition) }
        if now >= nextCheck {
            (lastCheck, nextCheck) = (now, now + interval)
            verdicts.append(.check)
        }
        return verdicts
    }
}
