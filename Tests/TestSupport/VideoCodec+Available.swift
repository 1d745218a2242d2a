import GStreamerKit
package import RTP
import WebRTCTransport

extension VideoCodec {
    /// The codecs that this installation can send and receive. Also for arguments of tests, which are read before anything
    /// else has initialised GStreamer.
    package static let available: [VideoCodec] = {
        GStreamerRuntime.initialise()
        return allCases.filter(\.isAvailable)
    }()
}
