// One peer connection in `stats`, with the names, nesting and units of webrtc-stats and webrtcbin: seconds as double,
// counters since the connection was made. An unknown value is absent.
import GStreamerKit
import ICE
import MediaSecurity
import RTP
import WebRTCTransport

enum ConnectionStructure {
    static func make(_ connection: ConnectionStatistics, _ codecs: CodecStatistics) -> Structure {
        let from = connection.statistics
        let (sends, receives) = (connection.name != "subscriber", connection.name != "publisher")
        let codec = codecs.codec.map { Structure("codec", ("mime-type", GValueBox("video/\($0.encodingName)"))) }
        let parts: [(String, Structure?)] = [
            ("transport", transport(from)), ("candidate-pair", from.selectedPair.map(candidatePair)), ("codec", codec),
            ("outbound-rtp", sends ? outbound(from, codecs) : nil),
            ("remote-inbound-rtp", sends ? remoteInbound(from) : nil),
            ("inbound-rtp", receives ? inbound(from) : nil),
            ("audio-outbound-rtp", sends ? from.audio.map(outbound) : nil),
            ("audio-inbound-rtp", receives ? from.audio.map(inbound) : nil),
        ]
        let stats = Structure("connection")
        for (name, part) in parts { stats[name] = part.map { GValueBox(structure: $0) } }
        return stats
    }

    private static func transport(_ from: PeerConnectionStatistics) -> Structure {
        guard let dtls = from.dtls, !dtls.version.isEmpty else { return Structure("transport") }
        return Structure(
            "transport", ("tls-version", GValueBox(dtls.version)), ("dtls-cipher", GValueBox(dtls.cipher)),
            ("srtp-cipher", GValueBox(dtls.profile)))
    }

    private static func candidatePair(_ pair: ICECandidatePair) -> Structure {
        Structure(
            "candidate-pair", ("local-candidate-type", GValueBox(pair.local.type)),
            ("remote-candidate-type", GValueBox(pair.remote.type)), ("protocol", GValueBox(pair.transport)))
    }

    private static func outbound(_ from: PeerConnectionStatistics, _ codecs: CodecStatistics) -> Structure {
        let rate = from.bitrateTarget
        // The order of webrtc-stats, for two reasons at once.
        let reason = rate.map { $0.isLimitedByNetwork ? "bandwidth" : codecs.isLimitedByCPU ? "cpu" : "none" }
        return Structure(
            "outbound-rtp", ("packets-sent", GValueBox(uint64: from.packetsSent)),
            ("bytes-sent", GValueBox(uint64: from.bytesSent)),
            ("total-packet-send-delay", seconds(from.totalSendDelay)),
            ("nack-count", GValueBox(uint: Int(clamping: from.rtp.nacksReceived))),
            ("pli-count", GValueBox(uint: Int(clamping: from.rtp.plisReceived))),
            ("target-bitrate", rate.map { GValueBox(double: Double($0.target)) }),
            ("quality-limitation-reason", reason.map { GValueBox($0) }))
    }

    private static func remoteInbound(_ from: PeerConnectionStatistics) -> Structure {
        Structure(
            "remote-inbound-rtp", ("packets-lost", from.remotePacketsLost.map { GValueBox(int64: $0) }),
            ("fraction-lost", from.fractionLost.map { GValueBox(double: $0) }),
            ("round-trip-time", seconds(from.roundTripTime)))
    }

    private static func inbound(_ from: PeerConnectionStatistics) -> Structure {
        Structure(
            "inbound-rtp", ("packets-received", GValueBox(uint64: from.packetsReceived)),
            ("bytes-received", GValueBox(uint64: from.bytesReceived)),
            ("packets-discarded", GValueBox(uint64: from.packetsRefused)),
            ("nack-count", GValueBox(uint: Int(clamping: from.rtp.nacksSent))),
            ("pli-count", GValueBox(uint: Int(clamping: from.rtp.plisSent))),
            ("packets-lost", from.rtp.packetsLost.map { GValueBox(int64: $0) }), ("jitter", seconds(from.rtp.jitter)))
    }

    private static func outbound(_ from: AudioStatistics) -> Structure {
        Structure(
            "outbound-rtp", ("packets-sent", GValueBox(uint64: from.packetsSent)),
            ("bytes-sent", GValueBox(uint64: from.bytesSent)))
    }

    private static func inbound(_ from: AudioStatistics) -> Structure {
        Structure(
            "inbound-rtp", ("packets-received", GValueBox(uint64: from.packetsReceived)),
            ("bytes-received", GValueBox(uint64: from.bytesReceived)),
            ("packets-lost", from.packetsLost.map { GValueBox(int64: $0) }),
            ("packets-recovered", GValueBox(uint64: from.packetsRecovered)), ("jitter", seconds(from.jitter)))
    }

    private static func seconds(_ time: Duration?) -> GValueBox? { time.map { GValueBox(double: $0 / .seconds(1)) } }
}
