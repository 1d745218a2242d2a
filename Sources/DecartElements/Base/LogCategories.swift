// The debug categories of the elements: one for each layer of a session, besides those of the elements themselves.
import DecartSession
import GStreamerKit
import Log
import WebRTCTransport

enum LogCategories {
    static let session = DebugCategory("decartsession", "Sessions with Decart's service: attempts, prompts, errors")
    static let signalling = DebugCategory(
        "decartsignalling", "Control channel and room signalling: TCP, TLS, WebSocket")
    static let room = DebugCategory("decartroom", "LiveKit rooms")
    static let media = DebugCategory("decartmedia", "Encoders, decoders and the output")
    private static let ice = DebugCategory("decartice", "ICE candidates and paths")
    private static let dtls = DebugCategory("decartdtls", "DTLS handshakes and SRTP keys")
    private static let rtp = DebugCategory("decartrtp", "RTP and RTCP")
    private static let congestion = DebugCategory("decartcongestion", "Congestion control")

    /// Creates all categories, so that `gst-launch-1.0 --gst-debug-help` lists them.
    static func register() { _ = (session, signalling, room, media, ice, dtls, rtp, congestion) }

    static func transport(for object: String) -> TransportLoggers {
        TransportLoggers(
            ice: ice.logger(for: object), dtls: dtls.logger(for: object), rtp: rtp.logger(for: object),
            congestion: congestion.logger(for: object))
    }
}

/// The loggers of one element's sessions.
struct SessionLoggers: Sendable {
    private(set) var session, signalling, room, media: Logger
    private(set) var transport: TransportLoggers

    /// - Parameter object: the element's name.
    init(_ object: String) {
        session = LogCategories.session.logger(for: object)
        signalling = LogCategories.signalling.logger(for: object)
        room = LogCategories.room.logger(for: object)
        media = LogCategories.media.logger(for: object)
        transport = LogCategories.transport(for: object)
    }

    /// The session's own lines are of texts that have passed the redactor.
    func guarded(by redactor: RunRedactor) -> SessionLoggers {
        var guarded = self
        guarded.signalling = redactor.guarding(signalling)
        guarded.room = redactor.guarding(room)
        guarded.media = redactor.guarding(media)
        guarded.transport = transport.mapping { redactor.guarding($0) }
        return guarded
    }
}
