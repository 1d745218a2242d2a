// The media of one live view: a peer connection that offers to receive, the decoders behind it, or the depayloader of
// video that is forwarded encoded, and the encoder for talkback. It knows RTP and codecs; it must not know how the
// offer travels.
//
// Every method runs on the camera's queue, which may block in GStreamer, unless it says otherwise.
import GStreamerKit
import Log
import MediaPipeline
import WebRTCTransport

// @unchecked: the fields belong to the camera's queue.
final class CameraConnection: @unchecked Sendable {
    private let connection: PeerConnection
    private let parent: Bin
    private let bin = Bin()
    private let video: StreamJoint
    private let audio: StreamJoint?
    private let logger: Logger
    private let onFirst: @Sendable () -> Void
    private let isolator = ErrorIsolator()
    /// Decodes the video, or takes it out of its packets only.
    private var receiver: (codec: VideoCodec, elements: [Element], entry: Pad)?
    private let decodes: Bool
    private var isClosed = false
    /// Decodes the audio, whose codec its packets choose.
    private var audioReceiver: (codec: AudioCodec, elements: [Element], entry: Pad)?
    private let audioIsolator: ErrorIsolator
    private let number: Int
    private let talkback: AudioTrack?
    private let talkbackPath: AudioPath?

    // @unchecked: written once, before packets come.
    private final class Own: @unchecked Sendable {
        weak var connection: CameraConnection?
    }

    /// - Parameters:
    ///   - number: that of the view.
    ///   - decodes: false: video is forwarded encoded.
    ///   - audio: nil: the camera's audio is not wanted.
    ///   - talkback: nil: nothing is sent.
    ///   - perform: runs work on the camera's queue.
    ///   - onFirst: called with the first frame, on any thread.
    ///   - onEvent: called on any thread.
    init(
        _ configuration: PeerConnectionConfiguration, number: Int, in parent: Bin, video: StreamJoint, decodes: Bool,
        audio: StreamJoint?, talkback: AudioTrack?, logger: Logger,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onFirst: @escaping @Sendable () -> Void, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws {
        (self.parent, self.video, self.decodes, self.audio) = (parent, video, decodes, audio)
        (self.number, self.talkback, self.logger, self.onFirst) = (number, talkback, logger, onFirst)
        talkbackPath = talkback.map { AudioPath(path: PathID(number), track: $0, perform: perform) }
        let own = Own()
        audioIsolator = ErrorIsolator { caps, isolator in
            guard let codec = AudioCodec(encodingName: caps.first?.string("encoding-name")) else { return }
            isolator.hold()
            perform { own.connection?.changeAudio(to: codec) }
        }
        connection = try PeerConnection(configuration: configuration) { event in
            // No video is sent, and the remote peer may cause any number of these.
            if case .bitrateTarget = event { return }
            if case .stateChanged(.connected) = event { talkback?.gate.open(path: PathID(number)) }
            onEvent(event)
        }
        bin.suppressSourceAndSinkFlags()
        bin.add(connection.bin)
        own.connection = self
    }

    /// Any thread.
    func posted(_ message: Message) -> Bool { message.isFrom(within: bin) }

    /// Starts gathering candidates.
    func makeOffer() throws -> OfferText {
        parent.add(bin)
        bin.syncStateWithParent()
        guard let offer = OfferText(try connection.createOffer()) else {
            throw PeerConnectionError(.badDescription, "the offer has no transport")
        }
        return offer
    }

    func apply(answer: String) throws {
        try connection.setAnswer(answer)
        guard connection.videoDirection?.receives == true, let codec = connection.negotiatedCodec,
            let source = connection.bin.staticPad("rtp_src")
        else { throw PeerConnectionError(.rejected, "the answer of the camera has no video to receive") }
        try receive(codec)
        try isolator.open(to: source)
        if audio != nil, connection.audioDirection?.receives == true,
            let source = connection.bin.staticPad("audio_rtp_src")
        {
            try audioIsolator.open(to: source)
        }
        try sendTalkback()
    }

    func add(candidate: String?) {
        connection.addRemoteCandidate(
            candidate.map { ICECandidate(candidate: $0, sdpMid: nil, sdpMLineIndex: nil) })
    }

    /// Changes to another codec of the answer, in which the video has begun.
    func change(to codec: VideoCodec) throws {
        guard let receiver, receiver.codec != codec else { return }
        isolator.unlink()
        bin.takeOut(receiver.elements)
        receiver.entry.setActive(false)
        self.receiver = nil
        try receive(codec)
        isolator.push(upstream: Event.forceKeyUnitUpstream())
    }

    func close() {
        talkback?.gate.close(path: PathID(number))
        talkbackPath?.stop(in: bin)
        connection.close()
        parent.takeOut([bin])
        connection.dismantle()
        talkbackPath?.close()
        isolator.close()
        audioIsolator.close()
        receiver?.entry.setActive(false)
        audioReceiver?.entry.setActive(false)
        (receiver, audioReceiver, isClosed) = (nil, nil, true)
    }

    // MARK: Receivers

    private func receive(_ codec: VideoCodec) throws {
        let chain = try decodes ? makeDecoder(codec) : [EncodedVideoBin.makeReceiver(codec)]
        if !decodes { logger.info("camera: \(codec.encodingName), not decoded") }
        let entry = video.makeEntry(onFirst: onFirst)
        receiver = (codec, chain, entry)
        try isolator.link(to: try bin.insert(chain, before: entry))
    }

    private func makeDecoder(_ codec: VideoCodec) throws -> [Element] {
        let choice = try codec.startableDecoder(besides: []) { [logger] name in
            logger.warning("the decoder \(name) does not start; the next one by rank takes over")
        }
        logger.info("camera: \(codec.encodingName), decoder \(choice.factory)")
        let decoder = try VideoDecoderBin.make(codec: codec, choice: choice)
        return [decoder] + (try VideoDecoderBin.makeColorimetry(codec).map { [$0] } ?? [])
    }

    /// Makes the decoder for the packets that wait. Without one, the view goes on without audio.
    private func changeAudio(to codec: AudioCodec) {
        guard let audio, !isClosed else { return }
        defer { audioIsolator.release() }
        guard audioReceiver?.codec != codec else { return }
        audioIsolator.unlink()
        if let last = audioReceiver {
            bin.takeOut(last.elements)
            last.entry.setActive(false)
        }
        audioReceiver = nil
        do throws(GStreamerError) {
            let chain: [Element] = [try AudioDecoderBin.make(codec)]
            let entry = audio.makeEntry {}
            audioReceiver = (codec, chain, entry)
            try audioIsolator.link(to: try bin.insert(chain, before: entry))
            logger.info("camera: audio \(codec.encodingName)")
        } catch {
            logger.warning("camera: its audio cannot be decoded: \(error.message)")
        }
    }

    private func sendTalkback() throws {
        guard let talkbackPath, connection.audioDirection?.sends == true,
            let sink = connection.bin.staticPad("audio_rtp_sink"),
            let parameters = connection.audioSendParameters
        else { return }
        try talkbackPath.send(parameters, to: sink, in: bin)
    }
}
