import WebRTCTransport

package struct RoomOptions: Sendable, Equatable {
    /// Sent to clients that join a room.
    package var ice = RoomICE()
    /// Rooms also accept a single connection for both directions.
    package var servesSingleConnections = true
    /// Rooms carry the trailers of frames (`FrameTrailer`), and the transformed frame has that of its input frame.
    package var carriesTrailers = true
    /// Codec of the transformed video.
    package var codec = ServerCodec.query

    package init() {}
}

/// The codec of the transformed video in a room. If it cannot be encoded here, or the participant has a single connection
/// for both directions, it is that of the participant's video.
package enum ServerCodec: String, Sendable, CaseIterable {
    /// That of the query item `livekit_server_codec`, else H.264.
    case query
    /// That of the participant's video.
    case client
    case h264, vp8, vp9

    /// - Returns: nil: that of the participant's video.
    func codec(requested: String?) -> VideoCodec? {
        switch self {
        case .query: requested.flatMap(VideoCodec.init(rawValue:)) ?? .h264
        case .client: nil
        case .h264, .vp8, .vp9: VideoCodec(rawValue: rawValue)
        }
    }
}
