import WebRTCTransport

extension PeerConnectionConfiguration {
    /// The connection for which the room offers: it sends in any codec, and the room's descriptions say which.
    mutating func sendsRoomTracks() {
        codec = .vp8
        alternatives = VideoCodec.allCases.filter { $0 != .vp8 }
        acceptsDataChannels = false
    }
}
