import GStreamerKit

/// One payload type of an m-line with all that belongs to it, as LiveKit's servers compare and write them.
struct RoomFormat: Sendable, Equatable {
    /// In lower case, as in a MIME type: "vp8", "h264", "opus", "red".
    var name: String
    var payloadType: Int
    /// The text after the payload type in `a=rtpmap`.
    var encoding: String
    var parameters: String?
    var feedback: [String] = []
    var retransmissionType: Int?

    /// The media formats of an m-line in its order; RTX belongs to the format that it repeats.
    static func all(in media: SDPMedia) -> [RoomFormat] {
        func byType(_ name: String) -> [Int: [String]] {
            media.values(name).reduce(into: [:]) { found, value in
                let parts = value.split(separator: " ", maxSplits: 1)
                guard parts.count == 2, let type = Int(parts[0]) else { return }
                found[type, default: []].append(String(parts[1]))
            }
        }
        let (encodings, parameters, feedback) = (byType("rtpmap"), byType("fmtp"), byType("rtcp-fb"))
        var (formats, repeats): ([RoomFormat], [Int: Int]) = ([], [:])
        for type in media.formats.compactMap({ Int($0) }) {
            guard let encoding = encodings[type]?.first ?? fixed[type],
                let name = encoding.split(separator: "/").first?.lowercased()
            else { continue }
            if name == "rtx" {
                if let of = parameters[type]?.first.flatMap({ value(of: "apt", in: $0) }).flatMap({ Int($0) }) {
                    repeats[of] = repeats[of] ?? type
                }
            } else if !formats.contains(where: { $0.payloadType == type }) {
                formats.append(
                    RoomFormat(
                        name: name, payloadType: type, encoding: encoding, parameters: parameters[type]?.first,
                        feedback: feedback[type] ?? []))
            }
        }
        for index in formats.indices { formats[index].retransmissionType = repeats[formats[index].payloadType] }
        return formats
    }

    /// Payload types that need no `a=rtpmap` (RFC 3551 section 6).
    private static let fixed = [0: "PCMU/8000", 8: "PCMA/8000"]

    /// The value of a key in `key=value;key=value`.
    static func value(of key: String, in parameters: String) -> String? {
        for part in parameters.split(separator: ";") {
            let pair = part.split(separator: "=", maxSplits: 1)
            if pair.count == 2, pair[0].drop(while: { $0 == " " }) == key { return String(pair[1]) }
        }
        return nil
    }

    private func value(of key: String) -> String? { parameters.flatMap { Self.value(of: key, in: $0) } }

    /// True if both describe the same codec, profile and packetization.
    func matches(_ other: RoomFormat) -> Bool {
        guard name == other.name else { return false }
        switch name {
        case "h264":
            // The level may differ (RFC 6184 8.2.2).
            func profile(_ format: RoomFormat) -> Substring {
                (format.value(of: "profile-level-id") ?? "42e01f").lowercased().prefix(4)
            }
            return packetizationMode == other.packetizationMode && profile(self) == profile(other)
        case "vp9": return (value(of: "profile-id") ?? "0") == (other.value(of: "profile-id") ?? "0")
        case "av1": return (value(of: "profile") ?? "0") == (other.value(of: "profile") ?? "0")
        default: return true
        }
    }

    /// Profile of VP9.
    var profile: Int { name == "vp9" ? value(of: "profile-id").flatMap { Int($0) } ?? 0 : 0 }
    var packetizationMode: String { value(of: "packetization-mode") ?? "0" }

    /// The lines of this format in an m-line.
    var lines: [SDPAttribute] {
        var lines = [SDPAttribute("rtpmap", "\(payloadType) \(encoding)")]
        if let parameters { lines.append(SDPAttribute("fmtp", "\(payloadType) \(parameters)")) }
        return lines + feedback.map { SDPAttribute("rtcp-fb", "\(payloadType) \($0)") }
    }

    var retransmissionLines: [SDPAttribute] {
        retransmissionType.map {
            [SDPAttribute("rtpmap", "\($0) rtx/90000"), SDPAttribute("fmtp", "\($0) apt=\(payloadType)")]
        } ?? []
    }
}

extension RoomFormat {
    static func h264(_ mode: Int) -> String {
        "level-asymmetry-allowed=1;packetization-mode=\(mode);profile-level-id=42e01f"
    }

    /// The video of a server's offers, in its order.
    static let video: [RoomFormat] = [
        (96, "VP8", nil), (98, "VP9", "profile-id=0"), (100, "VP9", "profile-id=1"), (125, "H264", h264(0)),
        (108, "H264", h264(1)), (35, "AV1", nil), (116, "H265", nil),
    ].map { type, name, parameters in
        RoomFormat(
            name: name.lowercased(), payloadType: type, encoding: "\(name)/90000", parameters: parameters,
            feedback: ["ccm fir", "nack", "nack pli", "goog-remb"], retransmissionType: type + 1)
    }

    /// Taken from a client, and in no offer: pion, on which the servers stand, has it among its defaults, and no client of the
    /// recorded exchanges offers it.
    static let highProfile = RoomFormat(
        name: "h264", payloadType: 123, encoding: "H264/90000",
        parameters: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=640032",
        feedback: ["ccm fir", "nack", "nack pli", "goog-remb"], retransmissionType: 124)

    /// The audio of a server's offers, in its order.
    static let audio = [
        RoomFormat(
            name: "opus", payloadType: 111, encoding: "opus/48000/2", parameters: "minptime=10;useinbandfec=1",
            feedback: ["nack"]),
        RoomFormat(name: "red", payloadType: 63, encoding: "red/48000/2", parameters: "111/111"),
        RoomFormat(name: "pcmu", payloadType: 0, encoding: "PCMU/8000", feedback: ["nack"]),
        RoomFormat(name: "pcma", payloadType: 8, encoding: "PCMA/8000", feedback: ["nack"]),
    ]

    static func ofServers(_ kind: String) -> [RoomFormat] { kind == "video" ? video : audio }
}
