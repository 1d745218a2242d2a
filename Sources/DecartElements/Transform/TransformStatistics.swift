// The `stats` property: counters of all parts in one structure. -1 means unknown; times are in nanoseconds, rates in
// bit/s. It contains no secret, prompt or address.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import WebRTCTransport

enum TransformStatistics {
    static let name = "application/x-decarttransform-stats"

    static func structure(
        input: InputCounters, processor: ProcessorStage.Condition, output: OutputCounters,
        audio: (input: InputCounters, output: AudioOutputCounters), snapshot: SessionSnapshot?,
        transport: PeerConnectionStatistics?, receivedSize: (width: Int, height: Int)?, glassToGlassTime: Int64?
    ) -> Structure {
        let stats = Structure(name)
        stats["frames-in"] = GValueBox(uint64: input.framesIn)
        stats["frames-dropped"] = GValueBox(uint64: input.framesDropped)
        stats["frames-skipped"] = GValueBox(uint64: input.framesRateLimited)
        stats["frames-sent"] = GValueBox(uint64: input.framesSent)
        stats["processor"] = GValueBox(processor.rawValue)
        stats["frames-received"] = GValueBox(uint64: output.received)
        stats["frames-out"] = GValueBox(uint64: output.pushed)
        stats["frames-fallback"] = GValueBox(uint64: output.fallbackFrames)
        stats["frames-late"] = GValueBox(uint64: output.droppedLate)
        stats["audio-buffers-in"] = GValueBox(uint64: audio.input.framesIn)
        stats["audio-buffers-dropped"] = GValueBox(uint64: audio.input.framesDropped)
        stats["audio-buffers-sent"] = GValueBox(uint64: audio.input.framesSent)
        stats["audio-buffers-received"] = GValueBox(uint64: audio.output.received)
        stats["audio-buffers-out"] = GValueBox(uint64: audio.output.pushed)
        stats["audio-buffers-silence"] = GValueBox(uint64: audio.output.silence)
        stats["audio-buffers-late"] = GValueBox(uint64: audio.output.late)
        let rate = transport?.bitrateTarget
        stats["target-bitrate"] = GValueBox(int64: rate?.target ?? -1)
        stats["estimated-bitrate"] = GValueBox(int64: rate?.estimate ?? -1)
        stats["bitrate-reason"] = GValueBox(rate?.reason.rawValue)

        stats["packets-sent"] = GValueBox(uint64: transport?.packetsSent ?? 0)
        stats["bytes-sent"] = GValueBox(uint64: transport?.bytesSent ?? 0)
        stats["packets-received"] = GValueBox(uint64: transport?.packetsReceived ?? 0)
        stats["bytes-received"] = GValueBox(uint64: transport?.bytesReceived ?? 0)
        stats["packets-refused"] = GValueBox(uint64: transport?.packetsRefused ?? 0)
        stats["packets-lost"] = GValueBox(int64: transport?.packetsLost ?? -1)
        stats["nacks-sent"] = GValueBox(uint64: transport?.nacksSent ?? 0)
        stats["nacks-received"] = GValueBox(uint64: transport?.nacksReceived ?? 0)
        stats["plis-sent"] = GValueBox(uint64: transport?.plisSent ?? 0)
        stats["plis-received"] = GValueBox(uint64: transport?.plisReceived ?? 0)
        stats["round-trip-time"] = nanoseconds(transport?.roundTripTime)
        stats["jitter"] = nanoseconds(transport?.jitter)
        stats["remote-bitrate-estimate"] = GValueBox(int64: transport?.remoteBitrateEstimate ?? -1)
        stats["received-width"] = GValueBox(int: receivedSize?.width ?? -1)
        stats["received-height"] = GValueBox(int: receivedSize?.height ?? -1)

        let pair = transport?.selectedPair
        stats["local-candidate-type"] = GValueBox(pair?.local.type)
        stats["remote-candidate-type"] = GValueBox(pair?.remote.type)
        stats["relayed"] = GValueBox(pair?.isRelayed ?? false)
        stats["receive-relayed"] = GValueBox((transport?.receivingPair ?? pair)?.isRelayed ?? false)

        stats["transport"] = GValueBox(snapshot?.transport?.rawValue)
        let phases = snapshot?.phases
        stats["time-to-first-frame"] = nanoseconds(phases?.firstFrame)
        // Median of 15 measurements, from the input's running time to the decoded frame; only with timestamps=capture.
        stats["glass-to-glass-time"] = GValueBox(int64: Int(clamping: glassToGlassTime ?? -1))
        stats["connect-time"] = nanoseconds(phases?.connected)
        stats["connect-open-time"] = nanoseconds(phases?.transport)
        stats["connect-upgrade-time"] = nanoseconds(phases?.upgrade)
        stats["connect-ack-time"] = nanoseconds(phases?.initialAck)
        stats["connect-ice-time"] = nanoseconds(phases?.ice ?? transport?.iceTime)
        stats["connect-dtls-time"] = nanoseconds(phases?.dtls ?? transport?.dtlsTime)
        stats["retries"] = GValueBox(uint64: UInt64(clamping: snapshot?.retries ?? 0))
        return stats
    }

    private static func nanoseconds(_ duration: Duration?) -> GValueBox {
        guard let duration else { return GValueBox(int64: -1) }
        return GValueBox(int64: Int(clamping: duration.clockTime))
    }
}
