import DecartProtocol
package import RTP
import WebRTCTransport

/// Which streams of an RTSP camera are taken: the first video that can be received, and the first audio if it is wanted. Any
/// other stream, without an element behind it, would end all of them. A value.
package struct RTSPStreams: Sendable {
    private let usable: [VideoCodec]
    private let takesAudio: Bool
    package private(set) var video: VideoCodec?
    package private(set) var hasAudio = false
    /// The encoding of audio that is wanted and cannot be received.
    package private(set) var unusableAudio: String?
    /// Encodings of video that cannot be received, each once, for a message. A camera may describe any number of streams.
    package private(set) var unusable: [String] = []
    package private(set) var isDescribed = false
    package static let maximumNamed = 8

    package init(usable: [VideoCodec], takesAudio: Bool) { (self.usable, self.takesAudio) = (usable, takesAudio) }

    /// - Returns: true if the stream is taken.
    package mutating func select(_ media: String?, encoding: String) -> Bool {
        isDescribed = true
        let name = encoding.printable(limit: 32)
        switch media {
        case "video":
            guard let codec = usable.first(where: { $0.encodingName == encoding }) else {
                if unusable.count < Self.maximumNamed, !unusable.contains(name) { unusable.append(name) }
                return false
            }
            guard video == nil else { return false }
            video = codec
            return true
        case "audio" where takesAudio && !hasAudio:
            hasAudio = AudioDecoderBin.isDecodable(encodingName: encoding)
            if !hasAudio { unusableAudio = name }
            return hasAudio
        default: return false
        }
    }
}
