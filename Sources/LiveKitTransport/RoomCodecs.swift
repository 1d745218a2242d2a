// The video codecs that a room allows, and the one of them that we publish. A value.
import DecartProtocol
import LiveKitProtocol
import RTP
import WebRTCTransport

struct RoomCodecs: Sendable {
    /// The codecs that we can send, the preferred one first.
    private let usable: [VideoCodec]
    /// The MIME types that the room allows, "video/VP8"; nil: any.
    private var allowed: [String]?
    /// The server's answer to our announcement named a codec that we cannot send.
    private var isBeyondUs = false
    private(set) var chosen: VideoCodec

    init(_ configuration: RoomConfiguration) {
        chosen = configuration.codec
        usable = [configuration.codec] + configuration.encodable.filter { $0 != configuration.codec }
    }

    /// The name of a codec in a MIME type: "H264" of "video/H264".
    static func name(ofMIMEType type: String) -> String {
        type.split(separator: "/").last.map { String($0).uppercased().printable(limit: 16) } ?? ""
    }

    private func codec(_ mimeType: String) -> VideoCodec? {
        usable.first { mimeType.lowercased() == "video/\($0.rawValue)" }
    }

    /// Chooses from what a room allows, before anything is announced.
    /// - Returns: true if that is another codec than before.
    mutating func choose(from codecs: [LiveKitCodec]) -> Bool {
        guard !codecs.isEmpty else { return false }
        let video = codecs.prefix(64).map(\.mime).filter { $0.lowercased().hasPrefix("video/") }
        allowed = video
        let possible = video.compactMap(codec)
        guard let first = usable.first(where: possible.contains) else { return false }
        return exchange(&chosen, with: first) != first
    }

    /// The server's answer to our announcement names the codec that we are to offer.
    /// - Returns: true if that is another codec than before.
    mutating func instructed(_ track: LiveKitTrackInfo) -> Bool {
        guard let type = track.codecs.first?.mimeType, !type.isEmpty else { return false }
        if allowed == nil { allowed = [type] }
        guard let codec = codec(type) else {
            isBeyondUs = true
            return false
        }
        return exchange(&chosen, with: codec) != codec
    }

    /// True if nothing that we can send is allowed.
    var isEmpty: Bool { isBeyondUs || allowed.map { $0.compactMap(codec).isEmpty } ?? false }

    /// The allowed codecs for people.
    var text: String {
        let names = (allowed ?? []).map(Self.name).filter { $0 != "RTX" }
        return names.isEmpty ? "no video" : names.joined(separator: ", ")
    }
}
