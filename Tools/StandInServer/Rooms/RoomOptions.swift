import RTP
import WebRTCTransport

package struct RoomOptions: Sendable, Equatable {
    /// Sent to clients that join a room.
    package var ice = RoomICE()
    /// Rooms also accept a single connection for both directions.
    package var servesSingleConnections = true
    /// Rooms carry the trailers of frames (`FrameTrailer`), and the transformed frame has that of its input frame.
    package var carriesTrailers = true
    /// Those trailers have the time and nothing else, as those of the service's own SDKs.
    package var trailersHaveTimeAlone = false
    /// Codec of the transformed video.
    package var codec = ServerCodec.query
    /// The video codecs that rooms allow; nil: all.
    package var allowedCodecs: Set<RoomCodec>?

    package init() {}

    /// The names of the codecs that rooms allow; audio is not restricted.
    var allowedNames: Set<String>? {
        allowedCodecs.map { Set($0.map(\.rawValue) + ["opus", "red", "pcmu", "pcma"]) }
    }
}

/// The codec of the transformed video in a room. If it cannot be encoded here, it is that of the participant's video.
package enum ServerCodec: String, Sendable, CaseIterable {
    /// That of the query item `livekit_server_codec`, else that of the participant's video.
    case query
    /// That of the participant's video.
    case client
    case h264
    /// In packets of one NAL unit.
    case h264SingleUnit = "h264-mode0"
    case vp8, vp9, h265

    /// - Returns: nil: that of the participant's video.
    func codec(requested: String?) -> OutputCodec? {
        switch self {
        case .query: requested.flatMap(VideoCodec.init(rawValue:)).map { OutputCodec($0.rawValue) }
        case .client: nil
        case .h264SingleUnit: OutputCodec("h264", isSingleUnit: true)
        case .h264, .vp8, .vp9, .h265: OutputCodec(rawValue)
        }
    }
}
