// One peer connection in `stats`, with the names, nesting and units of webrtc-stats and webrtcbin: seconds as double,
// counters since the connection was made. An unknown value is absent.
import GStreamerKit
import ICE
import MediaSecurity
import WebRTCTransport

enum ConnectionStructure {
    static func make(_ connection: ConnectionStatistics, _ codecs: CodecStatistics) -> Structure {
        let (name, from) = (connection.name, connection.statistics)
        let stats = Structure("connection")
        stats["transport"] = GValueBox(structure: transport(from))
        if let pair = from.selectedPair { stats["candidate-pair"] = GValueBox(structure: candidatePair(pair)) }
        if let codec = codecs.codec {
            let structure = Structure("codec")
            structure["mime-type"] = GValueBox("video/\(codec.encodingName)")
            stats["codec"] = GValueBox(structure: structure)
        }
        if name != "subscriber" {
            stats["outbound-rtp"] = GValueBox(structure: outbound(from, codecs))
            stats["remote-inbound-rtp"] = GValueBox(structure: remoteInbound(from))
        }
        if name != "publisher" { stats["inbound-rtp"] = GValueBox(structure: inbound(from)) }
        if let audio = from.audio {
            if name != "subscriber" { stats["audio-outbound-rtp"] = GValueBox(structure: outbound(audio)) }
            if name != "publisher" { stats["audio-inbound-rtp"] = GValueBox(structure: inbound(audio)) }
        }
        return stats
    }

    private static func transport(_ from: PeerConnectionStatistics) -> Structure {
        let stats = Structure("transport")
        guard let dtls = from.dtls, !dtls.version.isEmpty else { return stats }
        stats["tls-version"] = GValueBox(dtls.version)
        stats["dtls-cipher"] = GValueBox(dtls.cipher)
        stats["srtp-cipher"] = GValueBox(dtls.profile)
        return stats
    }

    private static func candidatePair(_ pair: ICECandidatePair) -> Structure {
        let stats = Structure("candidate-pair")
        stats["local-candidate-type"] = GValueBox(pair.local.type)
        stats["remote-candidate-type"] = GValueBox(pair.remote.type)
        stats["protocol"] = GValueBox(pair.transport)
        return stats
    }

    private static func outbound(_ from: PeerConnectionStatistics, _ codecs: CodecStatistics) -> Structure {
        let stats = Structure("outbound-rtp")
        stats["packets-sent"] = GValueBox(uint64: from.packetsSent)
        stats["bytes-sent"] = GValueBox(uint64: from.bytesSent)
        stats["total-packet-send-delay"] = GValueBox(double: from.totalSendDelay.inSeconds)
        stats["nack-count"] = GValueBox(uint: Int(clamping: from.nacksReceived))
        stats["pli-count"] = GValueBox(uint: Int(clamping: from.plisReceived))
        if let rate = from.bitrateTarget {
            stats["target-bitrate"] = GValueBox(double: Double(rate.target))
            // The order of webrtc-stats, for two reasons at once.
            stats["quality-limitation-reason"] = GValueBox(
                rate.isLimitedByNetwork ? "bandwidth" : codecs.isLimitedByCPU ? "cpu" : "none")
        }
        return stats
    }

    private static func remoteInbound(_ from: PeerConnectionStatistics) -> Structure {
        let stats = Structure("remote-inbound-rtp")
        if let lost = from.remotePacketsLost { stats["packets-lost"] = GValueBox(int64: lost) }
        if let fraction = from.fractionLost { stats["fraction-lost"] = GValueBox(double: fraction) }
        if let time = from.roundTripTime { stats["round-trip-time"] = GValueBox(double: time.inSeconds) }
        return stats
    }

    private static func inbound(_ from: PeerConnectionStatistics) -> Structure {
        let stats = Structure("inbound-rtp")
        stats["packets-received"] = GValueBox(uint64: from.packetsReceived)
        stats["bytes-received"] = GValueBox(uint64: from.bytesReceived)
        stats["packets-discarded"] = GValueBox(uint64: from.packetsRefused)
        stats["nack-count"] = GValueBox(uint: Int(clamping: from.nacksSent))
        stats["pli-count"] = GValueBox(uint: Int(clamping: from.plisSent))
        if let lost = from.packetsLost { stats["packets-lost"] = GValueBox(int64: lost) }
        if let jitter = from.jitter { stats["jitter"] = GValueBox(double: jitter.inSeconds) }
        return stats
    }

    private static func outbound(_ from: AudioStatistics) -> Structure {
        let stats = Structure("outbound-rtp")
        stats["packets-sent"] = GValueBox(uint64: from.packetsSent)
        stats["bytes-sent"] = GValueBox(uint64: from.bytesSent)
        return stats
    }

    private static func inbound(_ from: AudioStatistics) -> Structure {
        let stats = Structure("inbound-rtp")
        stats["packets-received"] = GValueBox(uint64: from.packetsReceived)
        stats["bytes-received"] = GValueBox(uint64: from.bytesReceived)
        if let lost = from.packetsLost { stats["packets-lost"] = GValueBox(int64: lost) }
        if let jitter = from.jitter { stats["jitter"] = GValueBox(double: jitter.inSeconds) }
        return stats
    }
}
