// `connection-quality` and `limiting-factor`: a judgement once a second, on the session's queue.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import RTP
import Synchronization
import WebRTCTransport

/// State of the checks that the element makes once a second while a session runs.
// @unchecked: only the session's queue uses it.
final class SessionWatch: @unchecked Sendable {
    fileprivate var sending = SendWatch()
    fileprivate var network = NarrowNetworkWatch()
    fileprivate var resolution: ResolutionWatch?
    /// Buffers of audio that had come a second ago.
    private var audioCount: UInt64?
    /// Seconds for which nothing has been linked to `audio_src`.
    private var unlinkedSeconds = 0

    /// - Parameter resolution: judges the size of the frames that come back, for `resolution=1080p`.
    init(resolution watches: Bool) { resolution = watches ? ResolutionWatch() : nil }

    /// - Returns: true if audio has come since the last call.
    func hasAudioCome(_ count: UInt64) -> Bool { exchange(&audioCount, with: count).map { count > $0 } ?? false }

    /// - Returns: true once, when nothing has been linked for three seconds.
    func isDue(isUnlinked: Bool) -> Bool {
        unlinkedSeconds = isUnlinked ? unlinkedSeconds &+ 1 : 0
        return unlinkedSeconds == 3
    }
}

extension DecartTransform {
    /// Judges the session each second until it ends.
    func watchQuality(of session: ElementSession) {
        session.after(.seconds(1)) { [weak self, weak session] in
            guard let self, let session, self.judge(session) else { return }
            self.watchQuality(of: session)
        }
    }

    /// - Returns: false if the session has ended.
    private func judge(_ session: ElementSession) -> Bool {
        let now = now
        guard let run = now.run, run.session === session else { return false }
        // Behind the end of a session, nothing is missing.
        let isDue = now.expectsInput && (run.input.awaitsVideo || now.snapshot.state.isInSession)
        watchInput(run, now.settings, isDue: isDue, isConnected: now.snapshot.state.isConnected)
        watchAudioAlone(run.watch)
        if let size = session.path?.receivedSize, let sentence = run.watch.resolution?.add(size) {
            warn(SessionError(.invalidOptions, sentence, stage: .media))
        }
        judgeConnection(of: run, now.snapshot)
        return true
    }

    /// Adds one reading. Called once a second, and at the start of a connection, so that its first verdict follows within
    /// two seconds.
    func judgeConnection(of run: Run, _ snapshot: SessionSnapshot) {
        let session = run.session
        let reading = snapshot.state.isConnected ? self.reading(of: run, snapshot.hold) : nil
        // A handler of the application may have ended the session meanwhile.
        let judged = state.withLock { state -> (before: QualityJudge.Verdict, quality: QualityJudge)? in
            guard state.run?.session === session else { return nil }
            let before = state.quality.verdict
            if let reading { _ = state.quality.add(reading) } else { state.quality.reset() }
            return (before, state.quality)
        }
        guard let (before, quality) = judged, case let verdict = quality.verdict, verdict != before else { return }
        let element = handle.unowned
        LogCategories.session(
            .info, element,
            "connection quality: \(verdict.quality.rawValue), limiting factor: \(verdict.factor.rawValue)"
                + (quality.isWarmingUp ? ", warming up" : ""))
        element.post(SessionMessages.quality(quality))
        // The application may end the session in each of these calls.
        for name in QualityJudge.Verdict.properties.changes(from: before, to: verdict)
        where self.session === session {
            element.notify(name)
        }
    }

    private func watchInput(_ run: Run, _ settings: TransformSettings, isDue: Bool, isConnected: Bool) {
        guard let input else { return }
        let session = run.session
        var reading = SendWatch.Reading()
        let counters = input.gate.counters
        (reading.framesIn, reading.framesSent) = (counters.framesIn, counters.framesSent)
        reading.droppedToKeyframe = counters.droppedToKeyframe
        reading.droppedIncomplete = counters.droppedIncomplete
        (reading.isEncodedInput, reading.hasKeyframe) = (input.encoded.isOn, input.encoded.format != nil)
        // Video that no participant receives is not encoded.
        let isEncoding = isConnected && session.path?.isWanted ?? true
        reading.isDue =
            input.gate.isPlaying && !input.gate.isHolding && isDue && !run.input.isDraining
            && !run.input.hasWarnedOfAudio && settings.subscribeToken == nil && settings.sending.takesVideo
        (reading.awaitsInput, reading.isLinked) = (
            run.input.awaitsVideo, handle.unowned.staticPad("sink")?.isLinked ?? false
        )
        reading.interval = input.gate.step.map { .nanoseconds(Int64(clamping: $0)) }
        (reading.framesReceived, reading.framesOut) = (
            output?.counters.received ?? 0, output?.counters.pushed ?? 0
        )
        reading.latency = .nanoseconds(Int64(clamping: output?.pipelineLatency ?? 0))
        (reading.sent, reading.received) = (input.motion.counts, output?.motion.counts ?? MotionMeter.Counts())
        (reading.framesEncoded, reading.isConnected) = (session.path?.codecs.encoding.frames ?? 0, isEncoding)
        if let stall = run.watch.sending.add(reading) {
            let isServices = stall == .repeatedFrame
            warn(
                SessionError(
                    isServices ? .server : .invalidInput, stall.sentence, stage: isServices ? .generation : .media))
        }
    }

    private func watchNetwork(_ run: Run, _ sending: PeerConnectionStatistics) {
        let sends = run.session.path.map { $0.isWanted && !$0.isMuted(.video) } ?? false
        let minimum = sending.bitrateRange?.lowerBound ?? 0
        let target = sends ? sending.bitrateTarget : nil
        guard run.watch.network.add(target, minimum: minimum) else { return }
        let text =
            "The network from this host carries less than \(minimum / 1000) kbit/s (min-bitrate): the video is late, or "
            + "stands. The session continues, and the video improves with more bandwidth."
        warn(SessionError(.webRTC, text, stage: .media))
    }

    private func reading(of run: Run, _ hold: MediaHold?) -> QualityReading? {
        let session = run.session
        let connections = session.readConnections()
        guard let sending = connections.first?.statistics, let receiving = connections.last?.statistics else {
            return nil
        }
        watchNetwork(run, sending)
        let stall = run.watch.sending.stall
        guard let input, let output else { return nil }
        var reading = QualityReading()
        let counters = input.gate.counters
        (reading.framesIn, reading.framesSent) = (counters.framesIn, counters.framesSent)
        (reading.framesBusy, reading.framesReceived) = (counters.droppedBusy, output.counters.received)
        (reading.packetsReceived, reading.packetsLost) = (receiving.packetsReceived, receiving.rtp.packetsLost)
        (reading.packetsSent, reading.remotePacketsLost) = (sending.packetsSent, sending.remotePacketsLost)
        reading.roundTrip = sending.roundTripTime
        reading.isFrameRepeated = stall == .repeatedFrame
        reading.isSendingStalled = stall != nil && stall != .repeatedFrame
        reading.causeOfSilence = hold.map { $0 == .pausedByNetwork ? .bandwidth : .service }
        reading.isRelayed = sending.selectedPair?.isRelayed ?? false
        reading.glassToGlass = run.timing?.measured.percentiles.map { .nanoseconds($0.p50) }
        if let rate = sending.bitrateTarget {
            // More than that looks better, and less of it is no fault of the network.
            let floor = session.path?.qualityFloor ?? rate.sustained
            let highest = max(1, min(sending.bitrateRange?.upperBound ?? floor, floor))
            reading.cpuRatio = session.path?.codecs.cpuShare ?? 1
            reading.bandwidthRatio = rate.isLimitedByNetwork ? min(1, Double(rate.sustained) / Double(highest)) : 1
        }
        return reading
    }
}

extension QualityJudge.Verdict: PropertyStorage {
    static let properties = PropertyTable<QualityJudge.Verdict>([
        .enumeration(
            "connection-quality", nick: "Connection quality",
            blurb: "Verdict on the running session; notify is emitted on change", \.quality),
        .enumeration(
            "limiting-factor", nick: "Limiting factor",
            blurb: "What keeps connection-quality from being excellent; notify is emitted on change", \.factor),
    ])
}

extension ConnectionQuality: PropertyEnumeration {
    package static let typeName = "GstDecartConnectionQuality"

    package var blurb: String {
        switch self {
        case .unknown: "No session, or too short to judge"
        case .excellent: "Nothing limits the session"
        case .good: "Small limits"
        case .poor: "Visible limits"
        case .critical: "Hardly usable"
        }
    }
}

extension LimitingFactor: PropertyEnumeration {
    package static let typeName = "GstDecartLimitingFactor"

    package var blurb: String {
        switch self {
        case .none: "Nothing"
        case .bandwidth: "The network carries less than max-bitrate"
        case .latency: "Round trip or glass to glass"
        case .loss: "Lost packets"
        case .stall: "No frames arrive"
        case .cpu: "This machine is too busy for all frames"
        case .service: "The service returns too few frames"
        }
    }
}
