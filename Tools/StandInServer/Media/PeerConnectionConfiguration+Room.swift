import RTP
import WebRTCTransport

extension PeerConnectionConfiguration {
    /// The connection for which the room offers: it sends in any codec, and the room's descriptions say which.
    mutating func sendsRoomTracks() {
        codec = .vp8
        alternatives = VideoCodec.allCases.filter { $0 != .vp8 }
        acceptsDataChannels = false
        // As LiveKit's servers answer a subscriber: a keyframe at most every 500 ms, a packet at most three times.
        feedbackLimits.keyframeInterval = .milliseconds(500)
        (feedbackLimits.retransmissions, feedbackLimits.retransmissionInterval) = (3, .milliseconds(100))
    }
}
