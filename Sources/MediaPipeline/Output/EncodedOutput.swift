import GStreamerKit
package import RTP
import WebRTCTransport

package struct EncodedOutput: Sendable, Equatable {
    /// Never empty; downstream's order.
    package let codecs: [VideoCodec]
    package let h264Format: String

    /// - Parameter allowed: downstream's caps, within those of the pad.
    /// - Returns: nil if downstream takes raw video or nothing of ours.
    init?(downstream allowed: Caps) {
        guard !allowed.isAny else { return nil }
        let names = allowed.structures.map(\.name)
        guard !names.contains("video/x-raw") else { return nil }
        codecs = names.compactMap(VideoCodec.init(capsName:)).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
        guard !codecs.isEmpty else { return nil }
        let byteStream = try? Caps("video/x-h264, stream-format=(string)byte-stream")
        h264Format = byteStream.map(allowed.canIntersect) ?? true ? "byte-stream" : "avc"
    }
}
