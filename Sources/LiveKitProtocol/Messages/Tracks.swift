// Tracks: how they are published, muted and subscribed to.

package enum LiveKitTrackType: OpenEnum {
    case audio, video, data
    case unrecognized(Int32)
    package static let names: [Self?] = [.audio, .video, .data]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package enum LiveKitTrackSource: OpenEnum {
    case unknown, camera, microphone, screenShare, screenShareAudio
    case unrecognized(Int32)
    package static let names: [Self?] = [.unknown, .camera, .microphone, .screenShare, .screenShareAudio]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package enum LiveKitVideoQuality: OpenEnum {
    case low, medium, high, off
    case unrecognized(Int32)
    package static let names: [Self?] = [.low, .medium, .high, .off]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

/// A part of `LiveKitTrackInfo`.
package struct LiveKitVideoLayer: WireMessage {
    package static let fields: Fields = [
        Field(1, \.quality), Field(2, \.width), Field(3, \.height), Field(4, \.bitrate), Field(5, \.ssrc),
        Field(7, \.rid),
    ]
    package var quality = LiveKitVideoQuality.low
    package var (width, height): (UInt32, UInt32) = (0, 0)
    /// Bits per second.
    package var bitrate: UInt32 = 0
    package var ssrc: UInt32 = 0
    package var rid = ""
    package var unknownFields: [UInt8] = []
    package init() {}
}

package struct LiveKitSimulcastCodec: WireMessage {
    package static let fields: Fields = [Field(1, \.codec), Field(2, \.cid), Field(4, \.layers)]
    /// "h264" or "video/h264".
    package var codec = ""
    package var cid = ""
    package var layers: [LiveKitVideoLayer] = []
    package init() {}
}

/// A part of `LiveKitTrackInfo`.
package struct LiveKitSimulcastCodecInfo: WireMessage {
    package static let fields: Fields = [
        Field(1, \.mimeType), Field(2, \.mid), Field(3, \.cid), Field(4, \.layers),
    ]
    package var (mimeType, mid, cid) = ("", "", "")
    package var layers: [LiveKitVideoLayer] = []
    package var unknownFields: [UInt8] = []
    package init() {}
}

/// The content of the trailers of a track's frames.
package enum LiveKitPacketTrailerFeature: OpenEnum {
    case ptfUserTimestamp, ptfFrameID, ptfUserData
    case unrecognized(Int32)
    package static let names: [Self?] = [.ptfUserTimestamp, .ptfFrameID, .ptfUserData]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

/// A client that resumes its connection sends the server's descriptions of its tracks back, with fields that it does not
/// know.
package struct LiveKitTrackInfo: WireMessage {
    package static let fields: Fields = [
        Field(1, \.sid), Field(2, \.type), Field(3, \.name), Field(4, \.muted), Field(5, \.width), Field(6, \.height),
        Field(7, \.simulcast), Field(9, \.source), Field(10, \.layers), Field(11, \.mimeType), Field(12, \.mid),
        Field(13, \.codecs), Field(15, \.disableRED), Field(17, \.stream), Field(21, \.packetTrailerFeatures),
    ]
    package var sid = ""
    package var type = LiveKitTrackType.audio
    package var name = ""
    package var muted = false
    package var (width, height): (UInt32, UInt32) = (0, 0)
    package var simulcast = false
    package var source = LiveKitTrackSource.unknown
    package var layers: [LiveKitVideoLayer] = []
    /// "video/H264"; empty until the server knows it.
    package var mimeType = ""
    package var mid = ""
    /// To the publisher: the codecs to publish, the main one first.
    package var codecs: [LiveKitSimulcastCodecInfo] = []
    /// Audio without redundancy (RFC 2198).
    package var disableRED = false
    package var stream = ""
    package var packetTrailerFeatures: [LiveKitPacketTrailerFeature] = []
    package var unknownFields: [UInt8] = []
    package init() {}
}

// MARK: Publishing

package struct LiveKitAddTrackRequest: WireMessage {
    package static let fields: Fields = [
        Field(1, \.cid), Field(2, \.name), Field(3, \.type), Field(4, \.width), Field(5, \.height), Field(6, \.muted),
        Field(8, \.source), Field(9, \.layers), Field(10, \.simulcastCodecs), Field(11, \.sid), Field(13, \.disableRED),
        Field(15, \.stream), Field(18, \.packetTrailerFeatures),
    ]
    package var cid = ""
    package var name = ""
    package var type = LiveKitTrackType.audio
    package var (width, height): (UInt32, UInt32) = (0, 0)
    package var muted = false
    package var source = LiveKitTrackSource.unknown
    package var layers: [LiveKitVideoLayer] = []
    package var simulcastCodecs: [LiveKitSimulcastCodec] = []
    package var sid = ""
    /// Audio without redundancy (RFC 2198).
    package var disableRED = false
    package var stream = ""
    package var packetTrailerFeatures: [LiveKitPacketTrailerFeature] = []
    package init() {}
}

package struct LiveKitTrackPublishedResponse: WireMessage {
    package static let fields: Fields = [Field(1, \.cid), Field(2, \.$track)]
    package var cid = ""
    @Submessage package var track: LiveKitTrackInfo
    package init() {}
}

package struct LiveKitTrackUnpublishedResponse: WireMessage {
    package static let fields: Fields = [Field(1, \.trackSid)]
    package var trackSid = ""
    package init() {}
}

/// Another participant has subscribed to a track of the client.
package struct LiveKitTrackSubscribed: WireMessage {
    package static let fields: Fields = [Field(1, \.trackSid)]
    package var trackSid = ""
    package init() {}
}

package struct LiveKitMuteTrackRequest: WireMessage {
    package static let fields: Fields = [Field(1, \.sid), Field(2, \.muted)]
    package var sid = ""
    package var muted = false
    package init() {}
}

/// The result of a request. The refusal of an `addTrack` comes here, with the request.
package struct LiveKitRequestResponse: WireMessage {
    package enum Reason: OpenEnum {
        case ok, notFound, notAllowed, limitExceeded, queued, unsupportedType, unclassifiedError, invalidRequest
        case unrecognized(Int32)
        package static let names: [Self?] = [
            .ok, .notFound, .notAllowed, .limitExceeded, .queued, .unsupportedType, .unclassifiedError, nil, nil, nil,
            nil, .invalidRequest,
        ]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package static let fields: Fields = [Field(2, \.reason), Field(3, \.message), Field(5, \.$addTrack)]
    package var reason = Reason.ok
    package var message = ""
    @Submessage package var addTrack: LiveKitAddTrackRequest
    package init() {}
}

// MARK: Subscribing

package struct LiveKitParticipantTracks: WireMessage {
    package static let fields: Fields = [Field(1, \.participantSid), Field(2, \.trackSids)]
    package var participantSid = ""
    package var trackSids: [String] = []
    package init() {}
}

package struct LiveKitUpdateSubscription: WireMessage {
    package static let fields: Fields = [Field(1, \.trackSids), Field(2, \.subscribe), Field(3, \.participantTracks)]
    package var trackSids: [String] = []
    package var subscribe = false
    package var participantTracks: [LiveKitParticipantTracks] = []
    package init() {}
}

package enum LiveKitSubscriptionError: OpenEnum {
    case seUnknown, seCodecUnsupported, seTrackNotfound
    case unrecognized(Int32)
    package static let names: [Self?] = [.seUnknown, .seCodecUnsupported, .seTrackNotfound]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitSubscriptionResponse: WireMessage {
    package static let fields: Fields = [Field(1, \.trackSid), Field(2, \.err)]
    package var trackSid = ""
    package var err = LiveKitSubscriptionError.seUnknown
    package init() {}
}

package enum LiveKitStreamState: OpenEnum {
    case active, paused
    case unrecognized(Int32)
    package static let names: [Self?] = [.active, .paused]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitStreamStateInfo: WireMessage {
    package static let fields: Fields = [
        Field(1, \.participantSid), Field(2, \.trackSid), Field(3, \.state),
    ]
    package var (participantSid, trackSid) = ("", "")
    package var state = LiveKitStreamState.active
    package init() {}
}

package struct LiveKitStreamStateUpdate: WireMessage {
    package static let fields: Fields = [Field(1, \.streamStates)]
    package var streamStates: [LiveKitStreamStateInfo] = []
    package init() {}
}

package struct LiveKitSubscribedQuality: WireMessage {
    package static let fields: Fields = [Field(1, \.quality), Field(2, \.enabled)]
    package var quality = LiveKitVideoQuality.low
    package var enabled = false
    package init() {}
}

package struct LiveKitSubscribedCodec: WireMessage {
    package static let fields: Fields = [Field(1, \.codec), Field(2, \.qualities)]
    package var codec = ""
    package var qualities: [LiveKitSubscribedQuality] = []
    package init() {}
}

/// The layers of our track that participants receive, for each codec; older servers have `subscribedQualities` alone.
package struct LiveKitSubscribedQualityUpdate: WireMessage {
    package static let fields: Fields = [
        Field(1, \.trackSid), Field(2, \.subscribedQualities), Field(3, \.subscribedCodecs),
    ]
    package var trackSid = ""
    package var subscribedQualities: [LiveKitSubscribedQuality] = []
    package var subscribedCodecs: [LiveKitSubscribedCodec] = []
    package init() {}
}

/// The publisher allows the subscription of a track, or not any more.
package struct LiveKitSubscriptionPermissionUpdate: WireMessage {
    package static let fields: Fields = [Field(1, \.participantSid), Field(2, \.trackSid), Field(3, \.allowed)]
    package var (participantSid, trackSid) = ("", "")
    package var allowed = false
    package init() {}
}
