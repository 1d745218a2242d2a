import DecartProtocol
import Glibc
import TestSupport
import Testing

/// Transport of a session, and the service behind it.
enum MediaWay: String, CaseIterable, CustomTestStringConvertible {
    /// `transport=auto` against a service that offers both LiveKit rooms and direct connections: a room is used.
    case room
    /// `transport=auto` against a service with direct connections only.
    case direct
    /// Demanded by the property, against a service with both.
    case livekit, webrtc

    /// Transport of this run of the suites, from `DECART_TEST_MEDIA`: the gate runs them once for `room` and once for
    /// `direct`. What the other ways do differently, StartTests checks.
    static let current: MediaWay =
        getenv("DECART_TEST_MEDIA").map { String(cString: $0) } == MediaWay.direct.rawValue ? .direct : .room
    static let demanded: [MediaWay] = [.livekit, .webrtc]
    /// The comment of a suite that only the run with rooms needs; the runner does not list it.
    static let indifferent: Comment = "the transport makes no difference"

    /// Value of the `transport` property.
    var transport: String {
        switch self {
        case .room, .direct: "auto"
        case .livekit, .webrtc: rawValue
        }
    }
    var served: Set<MediaTransportKind> { self == .direct ? [.webrtc] : [.webrtc, .livekit] }
    /// Transport that the session ends up with.
    var usedTransport: MediaTransportKind { self == .direct || self == .webrtc ? .webrtc : .livekit }
    var isRoom: Bool { usedTransport == .livekit }
    /// Expected counts for one session: offers on the control channel, and joins of a room.
    var offerCount: Int { isRoom ? 0 : 1 }
    var roomJoinCount: Int { isRoom ? 1 : 0 }
    var encoder: String { isRoom ? "x264enc" : "vp8enc" }
    var decoder: String { isRoom ? "avdec_h264" : "vp8dec" }
    var testDescription: String { rawValue }
}

extension Trait where Self == ConditionTrait {
    /// For suites whose tests set the transport themselves, have no session, or have one that only takes frames.
    static var indifferentToTransport: Self { .enabled(if: MediaWay.current == .room, MediaWay.indifferent) }

    /// For tests whose only result is a figure, and for cases that repeat another one's code path.
    static var measuredOnly: Self { .enabled(if: Verification.isOn, Comment(rawValue: Verification.comment)) }
}

extension Verification {
    /// All cases of a parameterised test under `scripts/verify`, and the first `count` of them in the gate.
    static func cases<Case>(_ all: [Case], gate count: Int) -> [Case] { isOn ? all : Array(all.prefix(count)) }

    /// A number of frames or cycles: many where they are measured, few where they are only waited for.
    static func count(_ many: Int, gate few: Int) -> Int { isOn ? many : few }
}
