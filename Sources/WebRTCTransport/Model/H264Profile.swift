/// Profile and level of an H.264 stream: the three bytes of its sequence parameter set that follow the NAL unit's header.
package struct H264Profile: Sendable, Equatable {
    let idc: UInt8
    let constraints: UInt8
    let level: UInt8

    static let constrainedBaseline = H264Profile(idc: 66, constraints: 0xe0, level: 31)

    /// The profiles that cameras send: constrained baseline, main and high.
    static let ofCameras = [
        constrainedBaseline, H264Profile(idc: 77, constraints: 0, level: 31),
        H264Profile(idc: 100, constraints: 0, level: 31),
    ]

    /// The constraint flags that tell profiles apart, as WebRTC's implementations write them: some compare the text.
    private var shownConstraints: UInt8 {
        switch idc {
        case 66: constraints & 0x40 != 0 ? 0xe0 : 0
        case 77, 88: 0
        case 100: constraints & 0x0c == 0x0c ? 0x0c : 0
        default: constraints
        }
    }

    /// The `profile-level-id` to offer. Every receiver decodes level 3.1, so no lower one is offered.
    package var levelID: String {
        [idc, shownConstraints, max(level, 31)].map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// True if a decoder of the other profile reads the stream; the level counts for nothing, because
    /// `level-asymmetry-allowed` frees each direction.
    package func matches(_ other: H264Profile) -> Bool {
        idc == other.idc && shownConstraints == other.shownConstraints
    }

    /// The name in GStreamer's caps.
    package var name: String {
        switch idc {
        case 66: shownConstraints == 0 ? "baseline" : "constrained-baseline"
        case 77: "main"
        case 88: "extended"
        case 100: shownConstraints == 0 ? "high" : "constrained-high"
        case 110: "high-10"
        case 122: "high-4:2:2"
        case 244: "high-4:4:4"
        default: "with profile_idc \(idc)"
        }
    }
}

extension H264Profile {
    /// Parses a `profile-level-id` (RFC 6184 8.1).
    init?(levelID text: String) {
        guard text.utf8.count == 6, let value = UInt32(text, radix: 16) else { return nil }
        self.init(
            idc: UInt8(truncatingIfNeeded: value >> 16), constraints: UInt8(truncatingIfNeeded: value >> 8),
            level: UInt8(truncatingIfNeeded: value))
    }
}

/// The H.264 that a connection negotiates.
package enum H264Acceptance: Sendable, Equatable {
    /// Baseline and constrained baseline, which our encoders make.
    case baseline
    /// If there is no baseline, main, high and constrained high too, which decoders read.
    case decodable
    /// Offers this profile, that of an encoded input, and accepts no other one in the answer.
    case profile(H264Profile)
    /// Accepts each profile that the remote peer offers, because nothing of it is decoded here.
    case any

    func accepts(_ levelID: String) -> Bool {
        switch self {
        case .baseline: levelID.hasPrefix("42")
        case .decodable: ["42", "4d", "64"].contains(levelID.prefix(2).lowercased())
        case .profile(let own): H264Profile(levelID: levelID)?.matches(own) ?? false
        case .any: true
        }
    }

    /// The acceptance of the remote peer's offers: its video is independent of the profile that we send.
    var ofOffers: H264Acceptance {
        switch self {
        case .baseline, .decodable: .decodable
        case .profile, .any: .any
        }
    }
}
