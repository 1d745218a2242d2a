import DecartProtocol
import Glibc

/// Transport of this run of the suite, from `DECART_TEST_MEDIA`; the pipelines run the suite once for each value.
enum MediaWay: String, CaseIterable {
    /// `transport=auto` against a service that offers both LiveKit rooms and direct connections.
    case auto
    /// `transport=auto` against a service with direct connections only.
    case older
    case livekit, webrtc
    /// A LiveKit room with one peer connection for both directions.
    case single

    static let current = getenv("DECART_TEST_MEDIA").flatMap { MediaWay(rawValue: String(cString: $0)) } ?? .auto

    /// Value of the `transport` property, followed by other properties that belong to it.
    var transport: String {
        switch self {
        case .older: "auto"
        case .single: "livekit single-connection=true"
        case .auto, .livekit, .webrtc: rawValue
        }
    }
    var served: Set<MediaTransportKind> { self == .older ? [.webrtc] : [.webrtc, .livekit] }
    /// Transport that the session ends up with.
    var usedTransport: MediaTransportKind { self == .older || self == .webrtc ? .webrtc : .livekit }
    var isRoom: Bool { usedTransport == .livekit }
    /// Expected counts for one session: offers on the control channel, and joins of a room.
    var offerCount: Int { isRoom ? 0 : 1 }
    var roomJoinCount: Int { isRoom ? 1 : 0 }
    var singleJoinCount: Int { self == .single ? 1 : 0 }
    var encoder: String { isRoom ? "x264enc" : "vp8enc" }
    var decoder: String { isRoom ? "avdec_h264" : "vp8dec" }
}
