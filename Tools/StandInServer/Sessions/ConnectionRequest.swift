/// The parameters of the upgrade request. It does not hold the API key: `Admission` checks that once and discards it.
package struct ConnectionRequest: Sendable, Equatable {
    package let model: String
    /// `pixel_latency=1`: copy the latency marker of each frame to the transformed frame.
    package let wantsLatencyMarker: Bool
    /// `livekit_early_room_info=true`: the client requests media through a LiveKit room.
    package let asksForRoom: Bool
    /// The `Host` header: the host and port by which the client reaches the stand-in.
    package let host: String?
    package let resolution: String?
    package let speed: String?
    /// `user_agent=…`, else the header `User-Agent`, unparsed.
    package let userAgent: String?
    /// `livekit_server_codec=…`, unparsed.
    package let serverCodec: String?
    /// Query items that the stand-in does not know.
    package var otherItems: [String: String] = [:]
    /// Describes the first query item that no SDK of Decart sends; nil: there is none.
    package var unknownItem: String?
    /// ID of the session to watch, if this is a viewer.
    package var viewedSessionID: String?
    /// Seconds that the client token permits; nil: unlimited.
    package var maximumDuration: Int?
    /// The account's sessions are all in use: the connection gets this answer and no session.
    package var limitAnswer: LimitAnswer?
}
