import DecartProtocol
import Glibc

/// Which way the media go in this run of the suite: `DECART_TEST_MEDIA` names it, the pipelines run the suite once for
/// each.
enum MediaWay: String, CaseIterable {
    /// `transport=auto`, and a service that has rooms beside direct connections.
    case auto
    /// `transport=auto`, and a service of the first generation.
    case older
    case livekit, webrtc
    /// A room with one connection for both directions.
    case single

    static let current = getenv("DECART_TEST_MEDIA").flatMap { MediaWay(rawValue: String(cString: $0)) } ?? .auto

    /// As the property has it, and others that belong to it.
    var transport: String {
        switch self {
        case .older: "auto"
        case .single: "livekit single-connection=true"
        case .auto, .livekit, .webrtc: rawValue
        }
    }
    var served: Set<TransportGeneration> { self == .older ? [.webrtc] : [.webrtc, .livekit] }
    /// What comes of it.
    var generation: TransportGeneration { self == .older || self == .webrtc ? .webrtc : .livekit }
    var isRoom: Bool { generation == .livekit }
    /// Offers on the control channel of one session, and visits to a room.
    var offerCount: Int { isRoom ? 0 : 1 }
    var roomJoinCount: Int { isRoom ? 1 : 0 }
    var singleJoinCount: Int { self == .single ? 1 : 0 }
    var encoder: String { isRoom ? "x264enc" : "vp8enc" }
    var decoder: String { isRoom ? "avdec_h264" : "vp8dec" }
}
