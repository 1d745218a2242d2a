import GStreamerKit

/// The upstream event after which payloaders make packets of `RTPSendParameters.shortMTU`. It travels as a request for a
/// keyframe does, past all that lies between the session and the payloaders.
enum ShortPackets {
    private static let name = "DecartShortPackets"

    static var request: Event { .customUpstream(Structure(name)) }

    static func isRequested(by event: Event) -> Bool {
        event.kind == .customUpstream && event.structure?.name == name
    }
}
