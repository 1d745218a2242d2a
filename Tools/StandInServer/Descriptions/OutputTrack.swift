package import RTP
import WebRTCTransport

/// A track of the room that its participant subscribes to.
package struct OutputTrack: Sendable, Hashable {
    package var kind: MediaKind
    package var sid: String
    /// Counts the publications of the track: each one has SSRCs of its own.
    package var publication: Int
    /// A track beside the transformed video.
    package var isExtra = false
    /// Its publisher; nil: the inference server whose video is transformed.
    package var participantSID: String?
    /// Audio: its packets may be redundant (RFC 2198).
    package var isRedundant: Bool

    package init(
        _ kind: MediaKind, sid: String, publication: Int = 1, isExtra: Bool = false, participantSID: String? = nil,
        isRedundant: Bool = true
    ) {
        (self.kind, self.sid, self.publication) = (kind, sid, publication)
        (self.isExtra, self.participantSID, self.isRedundant) = (isExtra, participantSID, isRedundant)
    }
}

/// The codec of a track, as an offer names it.
package struct OutputCodec: Sendable, Equatable {
    /// In lower case: "h264", "opus".
    package var name: String
    /// H.264 in packets of one NAL unit (RFC 6184 section 6.2).
    package var isSingleUnit = false

    package init(_ name: String, isSingleUnit: Bool = false) { (self.name, self.isSingleUnit) = (name, isSingleUnit) }

    package static let opus = OutputCodec("opus")

    /// The format of an m-line that carries the codec; nil: there is none.
    func format(in formats: [RoomFormat]) -> RoomFormat? {
        let usable = formats.filter { $0.name == name && $0.profile == 0 }
        guard name == "h264" else { return usable.first }
        return usable.first { $0.packetizationMode == (isSingleUnit ? "0" : "1") } ?? usable.first
    }
}

/// A track with the stream and the payload type that the answer accepts for it.
package struct TrackBinding: Sendable, Equatable {
    package var track: OutputTrack
    package var stream: OutputStream
    /// The payload type to send; nil: the answer lacks the codec.
    package var payloadType: Int?
    /// That of redundant audio; nil: the answer lacks it.
    package var redundancyType: Int?

    package init(_ track: OutputTrack, _ stream: OutputStream, payloadType: Int?) {
        (self.track, self.stream, self.payloadType) = (track, stream, payloadType)
    }

    /// - Parameter formats: those of the track's m-line.
    init(_ track: OutputTrack, _ stream: OutputStream, _ codec: OutputCodec, in formats: [RoomFormat]) {
        self.init(track, stream, payloadType: codec.format(in: formats)?.payloadType)
        if codec == .opus, track.isRedundant {
            redundancyType = formats.first { $0.name == "red" }?.payloadType
        }
    }

    var audio: AudioSendParameters? {
        payloadType.map { AudioSendParameters(payloadType: $0, ssrc: stream.ssrc, redundancyType: redundancyType) }
    }
}
