// The media of one live view by WebRTC: a peer connection that offers to receive, and the encoder for talkback. It knows
// RTP and codecs; it must not know how the offer travels.
//
// Every method runs on the camera's queue, which may block in GStreamer, unless it says otherwise.
import GStreamerKit
import Log
import MediaPipeline
import RTP
import WebRTCTransport

// @unchecked: the fields belong to the camera's queue.
final class CameraConnection: @unchecked Sendable {
    private let connection: PeerConnection
    private let parent: Bin
    private let bin = Bin()
    private let receivers: CameraReceivers
    private let takesAudio: Bool
    private let number: Int
    private let talkback: AudioTrack?
    private let talkbackPath: AudioPath?

    /// - Parameters:
    ///   - number: that of the view.
    ///   - decodes: false: video is forwarded encoded.
    ///   - talkback: nil: nothing is sent.
    ///   - perform: runs work on the camera's queue.
    ///   - onEvent: called on any thread.
    init(
        _ configuration: PeerConnectionConfiguration, number: Int, in parent: Bin, _ joints: CameraReceivers.Joints,
        decodes: Bool, talkback: AudioTrack?, logger: Logger,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) throws {
        (self.parent, self.number, self.talkback) = (parent, number, talkback)
        takesAudio = joints.audio != nil
        talkbackPath = talkback.map { AudioPath(path: PathID(number), track: $0, perform: perform) }
        receivers = CameraReceivers(in: bin, joints, decodes: decodes, logger: logger, perform: perform)
        connection = try PeerConnection(configuration: configuration) { event in
            // No video is sent, and the remote peer may cause any number of these.
            if case .bitrateTarget = event { return }
            if case .stateChanged(.connected) = event { talkback?.gate.open(path: PathID(number)) }
            onEvent(event)
        }
        bin.suppressSourceAndSinkFlags()
        bin.add(connection.bin)
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
        try receivers.receive(codec)
        try receivers.open(video: source)
        if takesAudio, connection.audioDirection?.receives == true,
            let source = connection.bin.staticPad("audio_rtp_src")
        {
            try receivers.open(audio: source)
        }
        try sendTalkback()
    }

    func add(candidate: String?) {
        connection.addRemoteCandidate(
            candidate.map { ICECandidate(candidate: $0, sdpMid: nil, sdpMLineIndex: nil) })
    }

    /// Changes to another codec of the answer, in which the video has begun.
    func change(to codec: VideoCodec) throws {
        guard try receivers.receive(codec) else { return }
        receivers.videoIsolator.push(upstream: Event.forceKeyUnitUpstream())
    }

    func close() {
        talkback?.gate.close(path: PathID(number))
        talkbackPath?.stop(in: bin)
        connection.close()
        parent.takeOut([bin])
        connection.dismantle()
        talkbackPath?.close()
        receivers.close()
    }

    private func sendTalkback() throws {
        guard let talkbackPath, connection.audioDirection?.sends == true,
            let sink = connection.bin.staticPad("audio_rtp_sink"),
            let parameters = connection.audioSendParameters
        else { return }
        try talkbackPath.send(parameters, to: sink, in: bin)
    }
}
