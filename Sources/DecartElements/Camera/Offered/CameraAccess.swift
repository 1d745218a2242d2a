import GStreamerKit
import Signalling
import WebRTCTransport

/// Settings of the session that a camera's own connection shares: the way into the network, and trust.
struct CameraAccess: Sendable {
    /// ICE servers, ports, addresses, tunnels and the jitter buffer.
    var connection: PeerConnectionConfiguration
    var trust: TLSTrust
    var route: NetworkRoute
    /// Tokens may travel unencrypted.
    var allowsInsecure: Bool
}

extension CameraAccess {
    /// Codecs that this installation decodes, that of most cameras first.
    private static var codecs: [VideoCodec] {
        [.h264, .vp8, .vp9].filter { $0.installedDecoder != nil && GStreamerRuntime.hasElement($0.depayloader) }
    }

    /// The configuration of a connection that receives.
    /// - Parameter audio: nil: the camera's audio is not wanted.
    func configuration(audio: MediaDirection?) throws(ElementFailure) -> PeerConnectionConfiguration {
        let codecs = Self.codecs
        guard let first = codecs.first else {
            throw ElementFailure(
                .coreMissingPlugin,
                "A GStreamer element is missing: a decoder of H.264, VP8 or VP9. Install the package that contains it.")
        }
        var configuration = connection
        configuration.codec = first
        configuration.alternatives = codecs
        configuration.h264 = .any
        configuration.direction = .recvonly
        configuration.audio = audio
        return configuration
    }
}
