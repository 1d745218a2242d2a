// The `stats` property: all parts in one structure. In the flat fields -1 means unknown, times are in nanoseconds and
// rates in bit/s; `connections` has names and units of webrtc-stats. No field has a secret, a prompt or an address.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import RTP
import WebRTCTransport

struct TransformStatistics {
    var input: InputCounters
    var processor: ProcessorStage.Condition
    var output: OutputCounters
    /// ns.
    var playout: (delay: ClockTime, target: ClockTime)
    var audio: (input: InputCounters, output: AudioOutputCounters)
    /// nil while the element does not run.
    var snapshot: SessionSnapshot?
    var history: SessionHistory
    var totals: PathCounters
    /// Connections of the newest media path, the sending one first.
    var connections: [ConnectionStatistics]
    var codecs: CodecStatistics
    var receivedSize: (width: Int, height: Int)?
    var timing: CaptureTiming?
    var track: VideoTrackStats.Reading
    var publication: VideoTrackStats.Publication
    var sid: String?
    var layers: [String]
    var now: Duration

    private var sending: PeerConnectionStatistics? { connections.first?.statistics }
    private var receiving: PeerConnectionStatistics? { connections.last?.statistics }

    var structure: Structure {
        let stats = Structure("application/x-decarttransform-stats")
        addFrames(to: stats)
        addAudio(to: stats)
        addVideo(to: stats)
        addSession(to: stats)
        addTrack(to: stats)
        let all = Structure("connections")
        for connection in connections {
            all[connection.name] = GValueBox(structure: ConnectionStructure.make(connection, codecs))
        }
        stats["connections"] = GValueBox(structure: all)
        return stats
    }

    // MARK: Element

    private func inSeconds(_ time: ClockTime) -> GValueBox { GValueBox(double: Double(time) / 1e9) }

    private func addFrames(to stats: Structure) {
        stats["frames-in"] = GValueBox(uint64: input.framesIn)
        stats["frames-dropped"] = GValueBox(uint64: input.framesDropped)
        let causes = Structure("frames-dropped-by-cause")
        causes["no-session"] = GValueBox(uint64: input.droppedWithoutSession)
        causes["not-playing"] = GValueBox(uint64: input.droppedNotPlaying)
        causes["busy"] = GValueBox(uint64: input.droppedBusy)
        causes["incomplete"] = GValueBox(uint64: input.droppedIncomplete)
        causes["to-keyframe"] = GValueBox(uint64: input.droppedToKeyframe)
        stats["frames-dropped-by-cause"] = GValueBox(structure: causes)
        stats["frames-skipped"] = GValueBox(uint64: input.framesRateLimited)
        stats["frames-sent"] = GValueBox(uint64: input.framesSent)
        stats["processor"] = GValueBox(processor.rawValue)
        stats["frames-received"] = GValueBox(uint64: output.received)
        stats["frames-out"] = GValueBox(uint64: output.pushed)
        stats["frames-fallback"] = GValueBox(uint64: output.fallbackFrames)
        stats["frames-late"] = GValueBox(uint64: output.droppedLate)
        stats["frames-shown-late"] = GValueBox(uint64: output.shownLate)
        stats["playout-delay"] = GValueBox(int64: Int(clamping: playout.delay))
        stats["target-playout-delay"] = GValueBox(int64: Int(clamping: playout.target))
        stats["jitter-buffer-delay"] = inSeconds(output.playoutDelay)
        stats["jitter-buffer-target-delay"] = inSeconds(output.targetDelay)
        stats["jitter-buffer-emitted-count"] = GValueBox(uint64: output.emitted)
        stats["total-processing-delay"] = inSeconds(output.processingDelay)
        stats["frames-per-second-sent"] = GValueBox(double: Double(track.sentRate))
        stats["frames-per-second-received"] = GValueBox(double: Double(track.receivedRate))
        stats["freeze-count"] = GValueBox(uint64: track.freezes.count)
        stats["total-freezes-duration"] = GValueBox(double: track.freezes.total / .seconds(1))
        stats["encoder"] = GValueBox(codecs.encoder)
        stats["decoder"] = GValueBox(codecs.decoder)
        stats["frames-encoded"] = GValueBox(uint64: totals.encoding.frames)
        stats["total-encode-time"] = GValueBox(double: totals.encoding.total / .seconds(1))
        stats["frames-decoded"] = GValueBox(uint64: totals.decoding.frames)
        stats["total-decode-time"] = GValueBox(double: totals.decoding.total / .seconds(1))
    }

    private func addAudio(to stats: Structure) {
        stats["audio-buffers-in"] = GValueBox(uint64: audio.input.framesIn)
        stats["audio-buffers-dropped"] = GValueBox(uint64: audio.input.framesDropped)
        stats["audio-buffers-sent"] = GValueBox(uint64: audio.input.framesSent)
        stats["audio-buffers-received"] = GValueBox(uint64: audio.output.received)
        stats["audio-buffers-out"] = GValueBox(uint64: audio.output.pushed)
        stats["audio-buffers-silence"] = GValueBox(uint64: audio.output.silence)
        stats["audio-buffers-late"] = GValueBox(uint64: audio.output.late)
    }

    // MARK: Media connection

    private func addVideo(to stats: Structure) {
        stats["packets-sent"] = GValueBox(uint64: totals.packetsSent)
        stats["bytes-sent"] = GValueBox(uint64: totals.bytesSent)
        stats["padding-bytes-sent"] = GValueBox(uint64: totals.paddingBytesSent)
        stats["total-packet-send-delay"] = GValueBox(double: totals.sendDelay / .seconds(1))
        stats["packets-received"] = GValueBox(uint64: totals.packetsReceived)
        stats["bytes-received"] = GValueBox(uint64: totals.bytesReceived)
        stats["packets-refused"] = GValueBox(uint64: totals.packetsRefused)
        stats["nacks-sent"] = GValueBox(uint64: totals.nacksSent)
        stats["nacks-received"] = GValueBox(uint64: totals.nacksReceived)
        stats["plis-sent"] = GValueBox(uint64: totals.plisSent)
        stats["plis-received"] = GValueBox(uint64: totals.plisReceived)

        let rate = sending?.bitrateTarget
        stats["codec"] = GValueBox(codecs.codec?.encodingName)
        stats["target-bitrate"] = GValueBox(int64: rate?.target ?? -1)
        stats["estimated-bitrate"] = GValueBox(int64: rate?.estimate ?? -1)
        stats["bitrate-reason"] = GValueBox(
            rate.map { codecs.isLimitedByCPU && !$0.isLimitedByNetwork ? "cpu" : $0.reason.rawValue })
        stats["remote-bitrate-estimate"] = GValueBox(int64: sending?.remoteBitrateEstimate ?? -1)
        stats["keyframe-send-delay"] = GValueBox(nanoseconds: sending?.keyframeSendDelay)
        stats["round-trip-time"] = GValueBox(nanoseconds: sending?.roundTripTime)
        stats["fraction-lost"] = GValueBox(double: sending?.fractionLost ?? -1)
        stats["remote-packets-lost"] = GValueBox(int64: sending?.remotePacketsLost.map { max($0, 0) } ?? -1)
        stats["packets-lost"] = GValueBox(int64: receiving?.rtp.packetsLost.map { max($0, 0) } ?? -1)
        stats["jitter"] = GValueBox(nanoseconds: receiving?.rtp.jitter)
        stats["received-width"] = GValueBox(int: receivedSize?.width ?? -1)
        stats["received-height"] = GValueBox(int: receivedSize?.height ?? -1)

        let pair = sending?.selectedPair
        stats["local-candidate-type"] = GValueBox(pair?.local.type)
        stats["remote-candidate-type"] = GValueBox(pair?.remote.type)
        stats["relayed"] = GValueBox(pair?.isRelayed ?? false)
        stats["receive-relayed"] = GValueBox((receiving?.selectedPair ?? pair)?.isRelayed ?? false)
    }

    // MARK: Session

    private func addSession(to stats: Structure) {
        stats["session-id"] = GValueBox(snapshot?.sessionID)
        stats["session-duration"] = GValueBox(uint: Int(clamping: snapshot?.granted?.components.seconds ?? 0))
        stats["service-status"] = GValueBox((snapshot?.serviceStatus ?? .unknown).rawValue)
        stats["muted-by-service"] = GValueBox(snapshot?.isMutedByService ?? false)
        stats["transport"] = GValueBox(snapshot?.transport?.rawValue)
        let phases = snapshot?.phases
        stats["time-to-first-frame"] = GValueBox(nanoseconds: phases?.firstFrame)
        let measured = timing?.measured
        stats["glass-to-glass-time"] = GValueBox(int64: Int(clamping: measured?.glassToGlass ?? -1))
        stats["ingest-hold"] = GValueBox(int64: Int(clamping: measured?.ingestHold ?? -1))
        stats["glass-to-glass-p50"] = GValueBox(int64: Int(clamping: measured?.percentiles?.p50 ?? -1))
        stats["glass-to-glass-p90"] = GValueBox(int64: Int(clamping: measured?.percentiles?.p90 ?? -1))
        stats["connect-time"] = GValueBox(nanoseconds: phases?.connected)
        stats["connect-open-time"] = GValueBox(nanoseconds: phases?.transport)
        stats["connect-upgrade-time"] = GValueBox(nanoseconds: phases?.upgrade)
        stats["connect-ack-time"] = GValueBox(nanoseconds: phases?.initialAck)
        stats["connect-ice-time"] = GValueBox(nanoseconds: phases?.ice ?? sending?.iceTime)
        stats["connect-dtls-time"] = GValueBox(nanoseconds: phases?.dtls ?? sending?.dtlsTime)
        stats["retries"] = GValueBox(uint64: UInt64(clamping: snapshot?.retries ?? 0))
        stats["reconnects"] = GValueBox(uint64: history.reconnects)
        stats["last-reconnect-reason"] = GValueBox(history.lastReason?.rawValue)
        stats["last-error-code"] = GValueBox(history.lastError?.rawValue)
        stats["last-warning-code"] = GValueBox(history.lastWarning?.rawValue)
        stats["resumes"] = GValueBox(uint64: totals.resumes)
        stats["ice-restarts"] = GValueBox(uint64: totals.iceRestarts)
        stats["renewals"] = GValueBox(uint64: history.renewals)
        let times = Structure("time-in-state")
        for state in SessionState.allCases {
            times[state.rawValue] = GValueBox(uint64: UInt64(history.time(in: state, now: now).clockTime))
        }
        stats["total-generation-seconds"] = GValueBox(double: history.billedSeconds)
        stats["time-in-state"] = GValueBox(structure: times)
    }

    private func addTrack(to stats: Structure) {
        stats["track-state"] = GValueBox(publication.rawValue)
        stats["track-sid"] = GValueBox(sid)
        stats["track-width"] = GValueBox(int: track.size?.width ?? -1)
        stats["track-height"] = GValueBox(int: track.size?.height ?? -1)
        stats["track-bitrate"] = GValueBox(int64: connections.isEmpty ? 0 : track.bitrate ?? -1)
        stats["track-layers"] = GValueBox(layers.joined(separator: " "))
        stats["last-sent-time"] = GValueBox(int64: track.lastSent.map { Int(clamping: $0) } ?? -1)
        stats["last-received-time"] = GValueBox(int64: track.lastReceived.map { Int(clamping: $0) } ?? -1)
    }
}
