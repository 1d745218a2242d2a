// Decoders behind the RTP packets of one live view, or depayloaders of video that is forwarded encoded, in front of the
// pads that stay. They know packets; they must not know where these come from.
//
// Every method runs on the camera's queue, which may block in GStreamer, unless it says otherwise.
import DecartProtocol
import GStreamerKit
import Log
import RTP
import WebRTCTransport

// @unchecked: the fields belong to the camera's queue.
final class CameraReceivers: @unchecked Sendable {
    struct Joints {
        let video: StreamJoint
        /// nil: the camera's audio is not wanted.
        let audio: StreamJoint?
        /// Called with the first frame, on any thread.
        let onFirst: @Sendable () -> Void
        /// Called with the reason why the camera's audio cannot be received, on any thread.
        let onUnusableAudio: @Sendable (_ reason: String) -> Void
    }
    private struct Receiver<Codec> {
        let codec: Codec
        let elements: [Element]
        let entry: Pad
    }

    private let bin: Bin
    private let joints: Joints
    private let decodes: Bool
    private let logger: Logger
    /// Upstream of the receivers, so that a decoder's flow error never ends the source of the packets.
    let videoIsolator: ErrorIsolator
    private let audioIsolator: ErrorIsolator
    private var video: Receiver<VideoCodec>?
    /// Its codec is that of the packets.
    private var audio: Receiver<String>?
    private var isClosed = false

    // @unchecked: written once, before packets come.
    private final class Own: @unchecked Sendable {
        weak var receivers: CameraReceivers?
    }

    /// - Parameters:
    ///   - decodes: false: video is forwarded encoded.
    ///   - perform: runs work on the camera's queue.
    ///   - onVideo: called on the camera's queue with the result of the change to another codec, which the packets choose;
    ///     nil: `receive` chooses it.
    init(
        in bin: Bin, _ joints: Joints, decodes: Bool, logger: Logger,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void,
        onVideo: (@Sendable (Result<VideoCodec, GStreamerError>) -> Void)? = nil
    ) {
        (self.bin, self.joints, self.decodes, self.logger) = (bin, joints, decodes, logger)
        let own = Own()
        videoIsolator = ErrorIsolator { caps, isolator in
            guard let onVideo, let codec = VideoCodec(packets: caps) else { return }
            isolator.hold()
            perform { own.receivers?.changeVideo(to: codec, onVideo) }
        }
        audioIsolator = ErrorIsolator { caps, isolator in
            guard let name = caps.first?.string("encoding-name") else { return }
            isolator.hold()
            perform { own.receivers?.changeAudio(to: name) }
        }
        own.receivers = self
    }

    /// Links the source of the packets. Any thread.
    func open(video source: Pad) throws(GStreamerError) { try videoIsolator.open(to: source) }
    func open(audio source: Pad) throws(GStreamerError) { try audioIsolator.open(to: source) }

    /// Call after the bin was taken down.
    func close() {
        videoIsolator.close()
        audioIsolator.close()
        video?.entry.setActive(false)
        audio?.entry.setActive(false)
        (video, audio, isClosed) = (nil, nil, true)
    }

    /// Makes the receiver of this codec, in place of the one before.
    /// - Returns: false if it is there already.
    @discardableResult func receive(_ codec: VideoCodec) throws(GStreamerError) -> Bool {
        guard video?.codec != codec else { return false }
        videoIsolator.unlink()
        remove(video)
        video = nil
        let chain = try decodes ? makeDecoder(codec) : [EncodedVideoBin.makeReceiver(codec)]
        if !decodes { logger.info("camera: \(codec.encodingName), not decoded") }
        let entry = joints.video.makeEntry(onFirst: joints.onFirst)
        video = Receiver(codec: codec, elements: chain, entry: entry)
        try videoIsolator.link(to: try bin.insert(chain, before: entry))
        return true
    }

    private func remove<Codec>(_ receiver: Receiver<Codec>?) {
        guard let receiver else { return }
        bin.takeOut(receiver.elements)
        receiver.entry.setActive(false)
    }

    private func changeVideo(
        to codec: VideoCodec, _ onChange: @Sendable (Result<VideoCodec, GStreamerError>) -> Void
    ) {
        guard !isClosed else { return }
        defer { videoIsolator.release() }
        do throws(GStreamerError) {
            try receive(codec)
            onChange(.success(codec))
        } catch {
            onChange(.failure(error))
        }
    }

    private func makeDecoder(_ codec: VideoCodec) throws(GStreamerError) -> [Element] {
        let choice = try codec.startableDecoder(besides: []) { [logger] name in
            logger.warning("the decoder \(name) does not start; the next one by rank takes over")
        }
        logger.info("camera: \(codec.encodingName), decoder \(choice.factory)")
        let decoder = try VideoDecoderBin.make(codec: codec, choice: choice)
        return [decoder] + (try VideoDecoderBin.makeColorimetry(codec).map { [$0] } ?? [])
    }

    /// Makes the decoder for the packets that wait. Without one, the view goes on without audio.
    private func changeAudio(to name: String) {
        guard let joint = joints.audio, !isClosed else { return }
        defer { audioIsolator.release() }
        guard audio?.codec != name else { return }
        audioIsolator.unlink()
        remove(audio)
        audio = nil
        do throws(GStreamerError) {
            guard let decoder = try AudioDecoderBin.make(encodingName: name) else {
                return joints.onUnusableAudio(Self.unusable(name.printable(limit: 32)))
            }
            let entry = joint.makeEntry {}
            audio = Receiver(codec: name, elements: [decoder], entry: entry)
            try audioIsolator.link(to: try bin.insert([decoder], before: entry))
            logger.info("camera: audio \(name)")
        } catch {
            joints.onUnusableAudio("it cannot be decoded: \(error.message.withoutFinalPoint)")
        }
    }

    static func unusable(_ encodingName: String) -> String {
        "it is \(encodingName), which is not received. It must be AAC, G.711 or Opus"
    }
}
