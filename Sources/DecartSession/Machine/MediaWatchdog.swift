/// Detects missing media: adds up the time during which we sent and received nothing. The sum stands still while the
/// input is silent. A long gap between two samples, such as a suspended process leaves, counts as at most two
/// intervals. No media are due after the end of a generation. Nor does the sum grow while packets arrive of which so many are
/// lost that no frame can be decoded: another connection would meet the same network.
struct MediaWatchdog: Sendable, Equatable {
    private let interval: Duration
    private var last: MediaTraffic?
    private var lastAt: Duration = .zero
    private(set) var silence: Duration = .zero
    /// Packets arrived between the last two samples.
    private(set) var receivesPackets = false
    /// Packets arrive, but the network has lost too many of them to decode frames, except for a few. It lasts until a smaller
    /// share is lost.
    private(set) var isStarvedByLoss = false
    /// A frame was dropped for its size since the last one that was received.
    private(set) var dropsLargeFrames = false
    /// The present silence counts as a stall.
    private(set) var isStalled = false
    /// Consecutive samples in which media came although none were due.
    private var samplesDespiteHold = 0
    /// Media that arrive in fewer samples than this were in flight when the hold began.
    private static let samplesBeforeEndOfHold = 4
    /// Consecutive samples without media since the generation ended; nil while media are due.
    private var quietSamples: Int?
    /// Media that arrive after fewer quiet samples than this were in flight when the generation ended.
    private static let quietSamplesBeforeMedia = 2
    /// Up to one lost packet for so many that arrive, retransmissions repair what is lost.
    private static let repairable: UInt64 = 9

    init(interval: Duration) { self.interval = interval }

    var expectsMedia: Bool { quietSamples == nil }
    /// Media flow although the room has announced none: the message about the end of its hold may have been lost with the
    /// signalling connection.
    var isHoldOver: Bool { samplesDespiteHold >= Self.samplesBeforeEndOfHold }

    private mutating func reset() { (silence, isStalled) = (.zero, false) }

    /// Call when the generation has ended.
    mutating func pause() {
        quietSamples = 0
        reset()
    }

    /// Call when a generation runs; repeated calls have no effect.
    mutating func resume() {
        guard !expectsMedia else { return }
        quietSamples = nil
        reset()
    }

    /// Call when the path is lost: the network was not the cause of a stall before that.
    mutating func pathLost() { if isStalled { reset() } }

    /// Call when packets pass again on a lost path: it was the network that was silent, and media are due again.
    mutating func pathRecovered() { reset() }

    /// - Parameter isHeld: no media are due, for a reason that a room names.
    mutating func sample(_ traffic: MediaTraffic, isHeld: Bool = false, now: Duration) {
        defer {
            last = traffic
            lastAt = now
        }
        if traffic.oversizedFrames > last?.oversizedFrames ?? 0 {
            dropsLargeFrames = true
        } else if traffic.received != last?.received {
            dropsLargeFrames = false
        }
        guard let last else { return }
        let arrived = traffic.packetsReceived &- last.packetsReceived
        let lost = traffic.packetsLost > last.packetsLost ? traffic.packetsLost - last.packetsLost : 0
        receivesPackets = arrived > 0
        let isLossy = receivesPackets && lost > arrived / Self.repairable
        isStarvedByLoss = isLossy && (isStarvedByLoss || traffic.received == last.received)
        samplesDespiteHold = isHeld && traffic.received != last.received ? samplesDespiteHold + 1 : 0
        if isHeld {
            reset()
        } else if traffic.received != last.received {
            reset()
            if let quiet = quietSamples { quietSamples = quiet < Self.quietSamplesBeforeMedia ? 0 : nil }
        } else if !isLossy {
            quietSamples? += 1
            if traffic.sent != last.sent { silence += min(max(now - lastAt, .zero), interval * 2) }
        }
    }

    /// - Returns: true once in each silence of at least this length.
    mutating func beginsStall(after time: Duration) -> Bool {
        guard expectsMedia, !isStalled, silence >= time else { return false }
        isStalled = true
        return true
    }
}
