// The logs of a peer connection, those of DTLS apart (`DTLSTransport`); used on the network thread only. INFO has one line
// for each phase, with its duration; DEBUG has negotiated parameters and each change; LOG has single packets. No line
// contains an address, ICE credentials, fingerprints or keys.
import ICE
import RTP
package import Log

/// The loggers of the layers of a peer connection.
package struct TransportLoggers: Sendable {
    package var ice, dtls, rtp, congestion: Logger

    package init(ice: Logger, dtls: Logger, rtp: Logger, congestion: Logger) {
        (self.ice, self.dtls, self.rtp, self.congestion) = (ice, dtls, rtp, congestion)
    }

    /// Discards everything.
    package static let none = TransportLoggers(ice: .none, dtls: .none, rtp: .none, congestion: .none)

    /// Returns loggers whose messages name the connection, if a session has several.
    package func naming(_ connection: String) -> TransportLoggers {
        mapping { $0.naming(connection) }
    }

    package func mapping(_ change: (Logger) -> Logger) -> TransportLoggers {
        TransportLoggers(ice: change(ice), dtls: change(dtls), rtp: change(rtp), congestion: change(congestion))
    }
}

struct ICELog {
    /// A TURN server that answers does so within this time; libnice gives up later.
    private static let answerTime = Duration.seconds(2)

    private let logger: Logger
    private var startedAt: ContinuousClock.Instant?
    private var localTypes: [String: Int] = [:]
    private var remoteTypes: [String: Int] = [:]
    private var isUp = false

    init(_ logger: Logger) { self.logger = logger }

    mutating func gatheringStarts() { startedAt = .now }

    mutating func gathered(local candidate: String) {
        let (type, text) = Self.describe(candidate)
        localTypes[type, default: 0] += 1
        logger.debug("local candidate: \(text)")
    }

    mutating func received(remote candidate: String) {
        let (type, text) = Self.describe(candidate)
        remoteTypes[type, default: 0] += 1
        logger.debug("remote candidate: \(text)")
    }

    /// - Parameter turnServers: number of TURN servers that were asked for an allocation.
    /// - Returns: true if none of them gave a relay candidate, as with wrong or expired credentials.
    func gatheringEnded(turnServers: Int) -> Bool {
        let time = startedAt.map { ContinuousClock.now - $0 } ?? .zero
        logger.info("gathered candidates in \(time.milliseconds): \(Self.list(localTypes))")
        let relays = localTypes["relay", default: 0]
        let missing = turnServers - relays
        guard turnServers > 0, missing > 0 else { return false }
        let servers = turnServers == 1 ? "the TURN server" : "\(missing) of \(turnServers) TURN servers"
        if time < Self.answerTime {
            logger.warning("\(servers) refused the connection or the allocation; check address, user and password")
        } else {
            logger.warning("\(servers) did not answer within \(time.milliseconds)")
        }
        return relays == 0
    }

    mutating func connected(_ pair: ICECandidatePair?) {
        isUp = true
        let time = startedAt.map { ContinuousClock.now - $0 } ?? .zero
        logger.info("connected after \(time.milliseconds): \(Self.describe(pair))")
    }

    func failed() {
        guard isUp else { return logNoPath("failed") }
        logger.info("failed: nothing arrives, also no answer to consent checks, or the remote peer has closed the path")
    }

    private func logNoPath(_ what: String) {
        guard let startedAt else { return }
        let time = ContinuousClock.now - startedAt
        let reason = time < .seconds(3) ? "no pair so far" : "no answer to the connectivity checks"
        logger.info(
            """
            \(what) after \(time.milliseconds), \(reason); local candidates: \(Self.list(localTypes)); \
            remote candidates: \(Self.list(remoteTypes))
            """)
    }

    func disconnected() { logger.info("disconnected: nothing arrives, also no answer to consent checks") }

    func pathClosed() { logger.info("disconnected: the remote peer has closed its TCP connection") }

    func reconnected() { logger.info("connected again: packets arrive") }

    mutating func restartBegins(_ reason: String?) {
        (localTypes, remoteTypes) = ([:], [:])
        logger.info("ICE restarts: \(reason ?? "the owner of the connection restarts it")")
    }

    func restartEnds(_ pair: ICECandidatePair?, after time: Duration) {
        logger.info("ICE restarted after \(time.milliseconds): \(Self.describe(pair))")
    }

    func restartFails(_ cause: String, after time: Duration) {
        logger.info("the ICE restart failed after \(time.milliseconds): \(cause); the previous path stays")
    }

    func warning(_ text: String) { logger.warning(text) }

    func closes() {
        if !isUp { logNoPath("closed") }
    }

    private static func describe(_ pair: ICECandidatePair?) -> String {
        pair.map { "\($0.local.type) to \($0.remote.type), \($0.family), \($0.transport)" } ?? "unknown pair"
    }

    /// Returns type and description of a candidate, without its address.
    private static func describe(_ candidate: String) -> (type: String, text: String) {
        do throws(CandidateLine.Rejection) {
            let line = try CandidateLine.parse(candidate)
            let family = line.address.contains(":") ? "IPv6" : "IPv4"
            return (line.type, "\(line.type), \(family), \(line.transport == .udp ? "udp" : "tcp")")
        } catch {
            switch error {
            case .malformed: return ("malformed", "malformed")
            case .mdns: return ("mDNS", "mDNS name")
            case .unusable:
                return (
                    "unusable",
                    "unusable: TCP that is not passive, a host name, or an address that must not be contacted"
                )
            }
        }
    }

    private static func list(_ types: [String: Int]) -> String {
        types.isEmpty
            ? "none" : types.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    }
}

struct RTPLog {
    /// Silence after which the log says that nothing arrives.
    private static let silence = Duration.seconds(2)

    private let logger: Logger
    private var lastRTP: Duration?
    private var lastDatagram = Duration.zero
    private var isSilent = false

    init(_ logger: Logger) { self.logger = logger }

    mutating func arrived(isRTP: Bool, now: Duration) {
        lastDatagram = now
        guard isRTP else { return }
        if lastRTP == nil { logger.info("the first RTP packet arrived") }
        if isSilent, let lastRTP {
            isSilent = false
            logger.info("RTP arrives again after \((now - lastRTP).milliseconds)")
        }
        lastRTP = now
    }

    /// Call it from time to time while connected. Silence is worth a line only once RTP has arrived.
    mutating func checkSilence(now: Duration) {
        guard !isSilent, let lastRTP, now - lastRTP >= Self.silence else { return }
        isSilent = true
        let time = (now - lastRTP).milliseconds
        // Transport-cc feedback arrives many times a second as long as the path lives and we send.
        if now - lastDatagram >= Self.silence / 2 {
            logger.info("nothing has arrived for \(time), neither RTP nor RTCP")
        } else {
            logger.info("no RTP has arrived for \(time); RTCP still arrives")
        }
    }
}

struct CongestionLog {
    private static let (highLoss, lowLoss) = (0.1, 0.02)
    private static let lossInterval = Duration.seconds(2)

    private let logger: Logger
    private var target: BitrateTarget?
    private var hasHighLoss = false
    /// The report at the start of the interval over which loss is measured.
    private var lossWindow: (since: Duration, report: ReceptionReport)?

    init(_ logger: Logger) { self.logger = logger }

    mutating func changed(_ next: BitrateTarget) {
        let last = target
        target = next
        guard let last else {
            return logger.info("starts at \(next.target.kilobits) kbit/s")
        }
        guard last.target != next.target || last.reason != next.reason else { return }
        logger.debug(
            """
            target \(last.target.kilobits) → \(next.target.kilobits) kbit/s, reason \(next.reason.rawValue), \
            estimate \(next.estimate.kilobits) kbit/s
            """)
    }

    /// Call it from time to time while connected. A single report covers too few packets.
    /// - Parameter report: the remote peer's latest report about our packets.
    mutating func checkLoss(_ report: ReceptionReport, now: Duration) {
        guard let last = lossWindow, report.highestSequence >= last.report.highestSequence else {
            lossWindow = (now, report)
            return
        }
        let expected = report.highestSequence - last.report.highestSequence
        guard now - last.since >= Self.lossInterval, expected >= 50 else { return }
        lossWindow = (now, report)
        let fraction = Double(max(0, report.packetsLost - last.report.packetsLost)) / Double(expected)
        if !hasHighLoss, fraction >= Self.highLoss {
            hasHighLoss = true
            logger.info("the remote peer reports \(Int(fraction * 100)) % loss of our packets")
        } else if hasHighLoss, fraction <= Self.lowLoss {
            hasHighLoss = false
            logger.info("the remote peer reports no more loss of our packets")
        }
    }
}

extension ICECandidatePair {
    fileprivate var family: String { local.address.hasPrefix("[") ? "IPv6" : "IPv4" }
}

extension Duration {
    var milliseconds: String {
        "\((self / .milliseconds(1) * 10).rounded() / 10) ms"
    }
}

extension Int {
    fileprivate var kilobits: Int { self / 1000 }
}
