/// Name and source under which other participants see the track.
struct TrackLabel: Sendable {
    var name: String?
    var source = TransformSettings.TrackSource.camera

    /// Name in a LiveKit room; the default is the one that LiveKit's own clients use.
    var roomName: String {
        guard let name else { return source == .screen ? "screen_share" : "camera" }
        return String(String.UnicodeScalarView(name.unicodeScalars.prefix(128)))
    }

    /// `stream track` of an SDP `msid` (RFC 8830: 1 to 64 token characters each); nil: a random one.
    var msid: String? {
        guard let name else { return nil }
        let token = String(name.unicodeScalars.prefix(64).map { Self.isToken($0) ? Character($0) : "-" })
        return "\(token) \(token)"
    }

    /// True for a `token-char` of RFC 8866.
    private static func isToken(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value > 0x20 && scalar.value < 0x7F && !"\"(),/:;<=>?@[\\]".unicodeScalars.contains(scalar)
    }
}
