import GStreamerKit
import RTP
import WebRTCTransport

/// Settings that the session's media connections and a camera's own one share: the way into the network, and trust.
struct MediaAccess: Sendable {
    /// ICE servers, ports, addresses, and tunnels.
    var connection: PeerConnectionConfiguration
    var servers: ServerAccess
}

extension MediaAccess {
    /// The configuration of a connection that receives.
    /// - Parameters:
    ///   - audio: nil: the camera's audio is not wanted.
    ///   - encoded: the codecs that are forwarded without being decoded; nil: the video is decoded.
    func configuration(
        audio: MediaDirection?, encoded: [VideoCodec]? = nil
    ) throws(ElementProblem) -> PeerConnectionConfiguration {
        let codecs = encoded ?? VideoCodec.decodable
        guard let first = codecs.first else {
            guard encoded == nil else {
                throw ElementProblem(
                    .resourceSettings,
                    "camera-encoded takes H.264 and VP8, but codec or downstream allows neither. Unset codec, decode behind "
                        + "the element, or set camera-encoded=false.")
            }
            throw ElementProblem.missing("a decoder, " + DebianPackage.list(["vp8dec", "vp9dec", "avdec_h264"]))
        }
        var configuration = connection
        configuration.codec = first
        configuration.alternatives = codecs
        // No decoder is used, so ignore which ones are installed.
        if encoded != nil { configuration.usableCodecs = Set(codecs) }
        configuration.h264 = .any
        configuration.direction = .recvonly
        configuration.audio = audio
        configuration.audioCodecs = AudioCodec.allCases
        return configuration
    }
}
