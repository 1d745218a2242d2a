// Receives the datagrams of a connection: the split between DTLS and SRTP (RFC 7983), SRTP, admission of SSRCs, demuxing
// to RTP sessions, the choice of codec and stream, and REMB.
import EventLoopThreads
import GStreamerKit
import ICE
import Log
import MediaSecurity
import RTP

// @unchecked: all that is not constant belongs to the network thread, which calls all methods.
final class RTPReceiver: @unchecked Sendable {
    private let ice: ICETransport
    private let dtls: DTLSTransport
    private let sender: RTPSender
    private let rtp: RTPSessions
    /// The sender of our REMB.
    private let ssrc: UInt32
    private let logger: Logger
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    /// Ends the connection.
    var onFailure: (PeerConnectionError) -> Void = { _ in }

    private struct Counters {
        var video = (packets: UInt64(0), bytes: UInt64(0))
        var audio = (packets: UInt64(0), bytes: UInt64(0))
        var refused: UInt64 = 0
        /// The latest REMB, bit/s.
        var remoteEstimate: Int?
    }
    private var counters = Counters()
    private var log: RTPLog
    /// nil before the handshake has finished and after a failure or close().
    private var srtp: SRTPTransform?
    private var sources = InboundSources()
    private var offered = OfferedSources()
    private var demuxer = BundleDemuxer()
    private var videoTypes = PayloadTypeChoice()
    private var audioTypes = PayloadTypeChoice()
    private var redundancy: AudioRedundancy?
    /// Codecs in which video may arrive, by payload type.
    private var codecs: [Int: VideoCodec] = [:]
    /// The layers of a received simulcast, highest resolution first; `rids` is empty without simulcast.
    private var layers = (rids: [String](), ridExtension: UInt8?.none, arrived: Set<Int>())
    private var stream = StreamChoice()
    private var audioStream = StreamChoice()
    private var estimator: ReceiveBitrateEstimator
    private var filler = FillerTrailer()
    private var remoteSSRC: UInt32?
    private var usesREMB = false
    /// The header extension abs-send-time, by which a queue on the path is seen.
    private var sendTimeExtension: UInt8?
    private var ticks = 0

    init(
        _ configuration: PeerConnectionConfiguration, ice: ICETransport, dtls: DTLSTransport, sender: RTPSender,
        rtp: RTPSessions, ssrc: UInt32,
        onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) {
        (self.ice, self.dtls, self.sender) = (ice, dtls, sender)
        (self.rtp, self.ssrc, self.onEvent) = (rtp, ssrc, onEvent)
        logger = configuration.loggers.rtp
        log = RTPLog(configuration.loggers.rtp)
        estimator = ReceiveBitrateEstimator(maximum: configuration.maximumReceiveBitrate)
    }

    /// True between the handshake and the end of the connection.
    var hasKeys: Bool { srtp != nil }

    func start(_ srtp: SRTPTransform) {
        self.srtp = srtp
        rtp.startReports()
        sendREMB()
    }

    /// Call after each negotiation.
    func configure(_ video: NegotiatedVideo) {
        demuxer.configure(video)
        (layers.rids, layers.ridExtension) = (video.receivedLayers, video.extensions.rid)
        usesREMB = video.usesREMB
        sendTimeExtension = video.inbound.map(\.absoluteSendTime) ?? video.extensions.absoluteSendTime
        codecs = video.codecs.reduce(into: [:]) { $0[$1.payloadType] = $1.codec }
        videoTypes.update(expected: video.inboundCodec.payloadType, alternatives: video.codecs.map(\.payloadType))
        // If the handshake has not finished yet, `start` begins them.
        if hasKeys { rtp.startReports() }
    }

    /// Takes over what the latest offer of the remote peer says about its streams.
    func admit(_ sources: OfferedSources) { offered = sources }

    func configure(_ audio: NegotiatedAudio) {
        update(audio)
        audioTypes = PayloadTypeChoice(
            expected: audio.payloadType, alternatives: audio.alternatives.map(\.payloadType))
        rtp.audio?.setFiller(filler)
        if hasKeys { rtp.startReports() }
    }

    /// Call after each later negotiation.
    func update(_ audio: NegotiatedAudio) {
        demuxer.configure(audio)
        redundancy = audio.redundancy
        rtp.audio?.setRedundancy(redundancy)
    }

    /// Drops the server's own frames from now on: they choose neither stream nor codec.
    func setFiller(_ trailer: FillerTrailer) {
        filler = trailer
        for kind in MediaKind.allCases { rtp[kind]?.setFiller(trailer) }
    }

    // MARK: Datagrams

    func receive(_ datagram: UnsafeMutableRawBufferPointer) {
        guard let first = datagram.first, datagram.count <= 2048 else { return }
        switch first {
        case 20...63: dtls.receive(UnsafeRawBufferPointer(datagram))
        case 128...191: receiveSRTP(datagram)
        default: counters.refused &+= 1
        }
    }

    private func receiveSRTP(_ datagram: UnsafeMutableRawBufferPointer) {
        // A DTLS server may send media before its own last flight.
        guard let srtp else { return }
        let now = MonotonicTime.now
        guard let (packet, isRTCP) = unprotect(datagram, srtp, now) else {
            counters.refused &+= 1
            return
        }
        log.arrived(isRTP: !isRTCP, now: now)
        if isRTCP {
            receive(RTCPCompound(parsing: packet), now)
        } else {
            ice.arrived(.media, now: now)
            receive(rtp: packet, now)
        }
    }

    /// Returns the decrypted packet in the datagram's memory; nil if it is malformed, not authentic, or of an SSRC that
    /// is not admitted.
    private func unprotect(
        _ datagram: UnsafeMutableRawBufferPointer, _ srtp: SRTPTransform, _ now: Duration
    ) -> (packet: UnsafeRawBufferPointer, isRTCP: Bool)? {
        guard datagram.count >= 12 else { return nil }
        let isRTCP = (192...223).contains(datagram[1])
        let ssrc = UnsafeRawBufferPointer(datagram).bigEndian32(at: isRTCP ? 4 : 8)
        guard sources.admits(ssrc, now: now) else { return nil }
        let length =
            isRTCP
            ? srtp.unprotectRTCP(datagram, length: datagram.count) : srtp.unprotectRTP(datagram, length: datagram.count)
        guard let length, length >= (isRTCP ? 8 : 12), length <= datagram.count else { return nil }
        recordSource(ssrc, now)
        logger.log("received \(isRTCP ? "RTCP" : "RTP"), SSRC \(ssrc), \(length) bytes")
        return (UnsafeRawBufferPointer(rebasing: datagram[..<length]), isRTCP)
    }

    private func recordSource(_ ssrc: UInt32, _ now: Duration) {
        guard let replaced = sources.record(ssrc, now: now) else { return }
        for kind in MediaKind.allCases { rtp[kind]?.forget(replaced) }
        guard sources.needsNewKeys else { return }
        onFailure(
            PeerConnectionError(
                .dtls, "the remote peer used more than \(InboundSources.maximumOfKeys) SSRCs with the same keys"))
    }

    // MARK: RTCP

    private func receive(_ compound: RTCPCompound, _ now: Duration) {
        counters.remoteEstimate = compound.remoteBitrateEstimate ?? counters.remoteEstimate
        ice.arrived(sender.received(compound, now) ? .acknowledgement : .feedback, now: now)
        // Each reporter needs a place because the RTP session keeps its state, and a compound packet has room for 180.
        for ssrc in compound.reporters {
            guard sources.admits(ssrc, now: now) else { return }
            recordSource(ssrc, now)
        }
        rtp.received(compound, now: now)
    }

    /// aiortc stays at 500 kbit/s until it receives an estimate.
    private func sendREMB() {
        guard usesREMB else { return }
        estimator.update(now: MonotonicTime.now)
        sendEstimate()
    }

    private func sendEstimate() {
        guard let remoteSSRC else { return }
        let packet = RTCPPackets.makeREMB(bitrate: estimator.estimate, senderSSRC: ssrc, mediaSSRC: remoteSSRC)
        packet.withUnsafeBytes { sender.send(rtcp: $0, of: .video) }
    }

    private func estimate(_ packet: UnsafeRawBufferPointer, _ now: Duration) {
        let value = sendTimeExtension.flatMap { HeaderExtension.value($0, in: packet) }
        let sendTime = value.flatMap { $0.count == 3 ? packet[$0].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } : nil }
        if estimator.arrived(size: packet.count, sendTime: sendTime, now: now) { sendEstimate() }
    }

    // MARK: RTP

    private func receive(rtp packet: UnsafeRawBufferPointer, _ now: Duration) {
        let (type, ssrc) = (Int(packet[1] & 0x7f), packet.bigEndian32(at: 8))
        let kind = demuxer.kind(ofRTP: packet)
        guard offered.admits(ssrc, kind, isRTX: kind == .video && codecs[type] == nil) else {
            counters.refused &+= 1
            rtp[kind]?.refused(rtp: packet, now: now)
            return
        }
        switch kind {
        case .audio:
            counters.audio = (counters.audio.packets &+ 1, counters.audio.bytes &+ UInt64(packet.count))
            let type = redundancy.map { $0.payloadType == type ? $0.mediaType : type } ?? type
            // Each packet of audio can be decoded by itself.
            let verdict =
                filler.ends(packet, endsFrame: true) ? .other : audioTypes.classify(type, canFollow: true, now: now)
            if verdict == .changed { rtp.changeAudioType(to: type) }
            if verdict != .other, audioStream.update(ssrc, now: now) { rtp.select(ssrc, .audio) }
            rtp.audio?.received(rtp: packet, activeType: audioTypes.active, now: now)
        case .video:
            counters.video = (counters.video.packets &+ 1, counters.video.bytes &+ UInt64(packet.count))
            if usesREMB { estimate(packet, now) }
            if let codec = codecs[type] { chooseVideo(packet, codec, now) }
            rtp.video.received(rtp: packet, activeType: videoTypes.active, now: now)
        }
    }

    /// Selects the stream and the codec that are shown.
    private func chooseVideo(_ packet: UnsafeRawBufferPointer, _ codec: VideoCodec, _ now: Duration) {
        let (type, ssrc) = (Int(packet[1] & 0x7f), packet.bigEndian32(at: 8))
        guard ssrc == stream.activeSSRC || rtp.video.maySelect(rtp: packet) else { return }
        let isFiller = filler.ends(packet, endsFrame: packet[1] & 0x80 != 0)
        let isNew = !isFiller && stream.update(ssrc, layer: layers.rids.isEmpty ? 0 : layer(packet), now: now)
        if isNew {
            rtp.select(ssrc, .video)
            videoTypes.restart()
        }
        guard ssrc == stream.activeSSRC else { return }
        remoteSSRC = ssrc
        estimator.packet(sequence: packet.bigEndian16(at: 2))
        guard !isFiller else { return }
        let canFollow =
            type != videoTypes.active
            && (videoTypes.active.flatMap { codecs[$0] } == codec || codec.beginsKeyframe(RTPHeader.media(packet)))
        guard videoTypes.classify(type, canFollow: canFollow, now: now) == .changed else { return }
        onEvent(.codecArrived(codec))
        // The packets before a later change were dropped, its keyframe too; a new stream begins with one.
        if !canFollow, !isNew { rtp.video.requestKeyframe() }
    }

    private func layer(_ packet: UnsafeRawBufferPointer) -> Int? {
        guard let id = layers.ridExtension, let value = HeaderExtension.value(id, in: packet),
            let layer = layers.rids.firstIndex(where: { $0.utf8.elementsEqual(packet[value]) })
        else { return nil }
        if layers.arrived.insert(layer).inserted { onEvent(.streamArrived(rid: layers.rids[layer])) }
        return layer
    }

    // MARK: Statistics and end

    /// Call four times a second: REMB leaves at each other call.
    func tick() {
        log.checkSilence(now: MonotonicTime.now)
        ticks &+= 1
        if ticks.isMultiple(of: 2) { sendREMB() }
    }

    func fill(_ statistics: inout PeerConnectionStatistics) {
        (statistics.packetsReceived, statistics.bytesReceived) = counters.video
        statistics.packetsRefused = counters.refused
        statistics.remoteBitrateEstimate = counters.remoteEstimate
        statistics.rtp = rtp.video.currentStatistics
        guard let session = rtp.audio?.currentStatistics else { return }
        var audio = AudioStatistics()
        (audio.packetsReceived, audio.bytesReceived) = counters.audio
        (audio.packetsLost, audio.jitter) = (session.packetsLost, session.jitter)
        audio.packetsRecovered = session.packetsRecovered
        statistics.audio = audio
    }

    func stop() {
        srtp = nil
    }
}
