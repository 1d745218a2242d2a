// Judges a connected path by what arrives authenticated. What arrives proves the downlink only; the uplink is proven by
// responses to consent checks (RFC 7675) and by RTCP that acknowledges our video. A value: `now` and randomness are
// arguments.
import Recovery

package struct PathMonitor: Sendable {
    package enum Verdict: Sendable, Equatable {
        /// Send a consent check.
        case check
        case disconnected
        case reconnected
        /// Consent has expired: no check has been answered for `consentTimeout`, whatever else arrives.
        case expired
    }

    private typealias Plan = RecoveryPlan.Path
    /// Packets a second from which on silence means something.
    private static let busyRate = 5

    package enum Arrival: Sendable {
        case media
        case feedback
        /// Feedback that shows that our video has arrived.
        case acknowledgement
        /// The response to a check.
        case consent
    }

    /// The reason for which the path is lost, which says what shows its return.
    private enum Loss { case silence, media, uplink, acknowledgements }

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

    /// Checks cannot reach the path, so only media tell: without them, silence means nothing.
    package var cannotCheck = false
    private var loss: Loss?
    private var isExpired = false
    private var lastArrival: Duration
    /// The latest SRTP or SRTCP. Behind a NAT that forgot its mapping, only responses to checks arrive: the peer answers
    /// the new address, and sends media to the old one.
    private var lastMedia: Duration
    private var lastConsent: Duration
    /// nil before the first one: some peers send none.
    private var lastAcknowledgement: Duration?
    /// The longest time between two acknowledgements; shrinks slowly, from the longest of RFC 3550.
    private var acknowledgementGap = Duration.seconds(6)
    private var lastSent: Duration?
    private var sendingSince: Duration
    private var suspectedAt: Duration?
    private var lastTick: Duration
    private var nextCheck: Duration
    private var lastCheck = Duration.zero
    /// SRTP and SRTCP.
    private var packets: Rate
    private var feedback: Rate
    private var acknowledgements: Rate

    private let consentTimeout: Duration

    package init(now: Duration, consentTimeout: Duration = RecoveryPlan.Path.consentTimeout) {
        self.consentTimeout = consentTimeout
        (lastArrival, lastMedia, lastConsent, lastTick, sendingSince) = (now, now, now, now, now)
        (packets, feedback, acknowledgements) = (Rate(now: now), Rate(now: now), Rate(now: now))
        // NACKs need the round trip that the check measures.
        nextCheck = now
    }

    package var isDisconnected: Bool { loss != nil }
    private var isBusy: Bool { packets.isBusy }

    package mutating func arrived(_ arrival: Arrival, now: Duration) -> Verdict? {
        lastArrival = now
        switch arrival {
        case .consent: lastConsent = now
        case .media: break
        case .feedback: feedback.arrived(now: now)
        case .acknowledgement:
            feedback.arrived(now: now)
            acknowledgements.arrived(now: now)
            if let last = lastAcknowledgement {
                acknowledgementGap = max(now - max(last, sendingSince), acknowledgementGap * 0.9)
            }
            lastAcknowledgement = now
        }
        if arrival != .consent {
            lastMedia = now
            packets.arrived(now: now)
        }
        guard let loss, Self.ends(loss, arrival) else { return nil }
        // The time in which nothing passed proves nothing about the uplink.
        (self.loss, sendingSince) = (nil, now)
        return .reconnected
    }

    private static func ends(_ loss: Loss, _ arrival: Arrival) -> Bool {
        switch loss {
        case .silence: true
        case .media: arrival != .consent
        case .uplink: arrival == .consent || arrival == .acknowledgement
        case .acknowledgements: arrival == .acknowledgement
        }
    }

    /// Call when the remote peer has closed the path.
    /// - Returns: true if it was not lost before.
    package mutating func closed() -> Bool {
        defer { loss = loss ?? .silence }
        return loss == nil
    }

    /// Call when the remote peer reports that our media do not arrive although we send them: the path is judged at once.
    package mutating func suspect(now: Duration) {
        guard loss == nil, suspectedAt == nil, !cannotCheck else { return }
        (suspectedAt, nextCheck) = (now, now)
    }

    /// Call several times a second.
    /// - Parameters:
    ///   - jitter: 0…1 at random.
    ///   - sends: RTP was sent since the last tick, so feedback is due.
    package mutating func tick(now: Duration, jitter: Double, sends: Bool = false) -> [Verdict] {
        guard !isExpired else { return [] }
        // Packets that arrived meanwhile have not been read yet.
        if now - lastTick > Plan.longestTick { shift(by: now - lastTick) }
        lastTick = now
        if sends {
            if lastSent.map({ now - $0 > Plan.longestSendGap }) ?? true { sendingSince = now }
            lastSent = now
        }
        let silence = now - lastArrival
        guard cannotCheck ? !isBusy || silence < consentTimeout : now - lastConsent < consentTimeout else {
            isExpired = true
            return [.expired]
        }
        var verdicts: [Verdict] = []
        if loss == nil {
            loss = judge(silence, sends, now)
            if loss != nil {
                suspectedAt = nil
                verdicts.append(.disconnected)
            }
        }
        if mustCheck(silence, jitter, now) { verdicts.append(.check) }
        return verdicts
    }

    private mutating func shift(by time: Duration) {
        lastArrival += time
        lastMedia += time
        lastConsent += time
        sendingSince += time
        lastAcknowledgement? += time
        suspectedAt? += time
        lastSent? += time
    }

    // MARK: Judgement

    private mutating func judge(_ silence: Duration, _ sends: Bool, _ now: Duration) -> Loss? {
        if isBusy || !cannotCheck, silence >= (isBusy ? Plan.busyLimit : Plan.idleLimit) { return .silence }
        if sends, isBusy, now - lastMedia >= (feedback.isBusy ? Plan.feedbackLimit : Plan.mediaLimit) { return .media }
        let limit = acknowledgements.isBusy ? Plan.uplinkLimit.busy : Plan.uplinkLimit.other
        if unproven(now) >= limit { return .uplink }
        let unacknowledged = unacknowledged(now)
        let due = min(max(acknowledgementGap * 3, Plan.acknowledgementLimit.least), Plan.acknowledgementLimit.longest)
        if unacknowledged >= due { return .acknowledgements }
        guard let suspectedAt, now - suspectedAt >= Plan.suspectLimit else { return nil }
        self.suspectedAt = nil
        if lastConsent < suspectedAt { return .uplink }
        let isDue = acknowledgementGap < Plan.suspectLimit / 2
        return isDue && unacknowledged > Plan.suspectLimit ? .acknowledgements : nil
    }

    private func isSending(_ now: Duration) -> Bool { lastSent.map { now - $0 <= Plan.longestSendGap } ?? false }

    /// Time without a proof that the uplink carries anything, although we send.
    private func unproven(_ now: Duration) -> Duration {
        guard !cannotCheck, isSending(now) else { return .zero }
        return now - max(lastConsent, lastAcknowledgement ?? lastConsent, sendingSince)
    }

    /// Time in which we sent and nothing of that was acknowledged, by a peer that acknowledges.
    private func unacknowledged(_ now: Duration) -> Duration {
        guard let lastAcknowledgement, isSending(now) else { return .zero }
        return now - max(lastAcknowledgement, sendingSince)
    }

    // MARK: Checks

    private mutating func mustCheck(_ silence: Duration, _ jitter: Double, _ now: Duration) -> Bool {
        let suspicion = acknowledgements.isBusy ? Plan.uplinkSuspicion.busy : Plan.uplinkSuspicion.other
        let probes =
            loss == nil && (suspectedAt != nil || isBusy && silence >= Plan.suspicion || unproven(now) >= suspicion)
        let isUrgent = now - lastConsent >= Plan.urgency
        let interval =
            probes
            ? Plan.probeInterval
            : isDisconnected || isUrgent ? Plan.lostInterval : Plan.interval * (0.8 + 0.4 * jitter)
        // The check that is planned may lie seconds ahead when the silence begins.
        if probes || isDisconnected || isUrgent { nextCheck = min(nextCheck, lastCheck + interval) }
        if lastConsent < lastCheck { nextCheck = min(nextCheck, lastCheck + Plan.repetition) }
        guard now >= nextCheck else { return false }
        (lastCheck, nextCheck) = (now, now + interval)
        return true
    }
}
