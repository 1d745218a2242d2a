/// The media path of a session.
package enum MediaTransportKind: String, Sendable, CaseIterable {
    /// Generation 1: one peer connection, negotiated over the control channel.
    case webrtc
    /// Generation 2: a LiveKit room that the control channel names.
    case livekit
}

package enum Orientation: String, Sendable, CaseIterable {
    case landscape, portrait
}

/// Frame size in pixels, and frames per second.
package struct VideoFormat: Sendable, Equatable {
    package var width: Int
    package var height: Int
    package var framerate: Int

    package init(width: Int, height: Int, framerate: Int) {
        self.width = width
        self.height = height
        self.framerate = framerate
    }

    /// Swaps width and height for portrait.
    package func oriented(_ orientation: Orientation) -> VideoFormat {
        orientation == .landscape ? self : VideoFormat(width: height, height: width, framerate: framerate)
    }

    /// The format that the service returns for `resolution=1080p`: the same shape with 1080 pixels on the shorter side,
    /// as 1884x1080 for 1088x624 (DecartAI/sdk#140).
    package var fullHD: VideoFormat {
        let (shorter, longer) = (max(min(width, height), 1), max(width, height))
        let scaled = (longer &* 1080 &+ shorter &- 1) / shorter
        let landscape = VideoFormat(width: (scaled + 1) & ~1, height: 1080, framerate: framerate)
        return landscape.oriented(height > width ? .portrait : .landscape)
    }
}

/// A model of the service, by name. A name that is not in the table is a *custom model*: it is accepted, but the user
/// must give its frame size and frame rate.
package struct DecartModel: Sendable, Equatable, CustomStringConvertible {
    package static let defaultName = "lucy-restyle-2"
    package static let urlPath = "/v1/stream"

    package let name: String
    private let facts: Facts?

    private struct Facts: Sendable, Equatable {
        let webrtc: VideoFormat
        var livekit: VideoFormat
        var takesImage = true
        var isFast = false
        /// The model to use instead.
        var successor: String?
    }

    /// Throws `INVALID_OPTIONS` if the name is empty, longer than 128 bytes, or has white space or control characters.
    package init(named name: String) throws(ProtocolError) {
        guard !name.isEmpty, name.utf8.count <= 128,
            !name.hasControlCharacters, !name.unicodeScalars.contains(where: \.properties.isWhitespace)
        else {
            throw ProtocolError(
                .invalidOptions, "The model's name is empty, too long or has a space in it. Correct model.")
        }
        self.name = name
        facts = DecartModel.table[name]
    }

    package var description: String { name }

    /// nil for a custom model.
    package func format(
        for transport: MediaTransportKind, orientation: Orientation = .landscape
    ) -> VideoFormat? {
        guard let facts else { return nil }
        return (transport == .webrtc ? facts.webrtc : facts.livekit).oriented(orientation)
    }

    /// False if the SDKs disagree whether the model takes a reference image. A custom model is assumed to take one.
    package var supportsReferenceImage: Bool { facts?.takesImage ?? true }

    /// True if the model supports `speed=fast`. A custom model is assumed to support it.
    package var supportsFastSpeed: Bool { facts?.isFast ?? true }

    /// The model that replaces this one, which Decart's SDKs have removed; nil: it is current, or custom.
    package var successor: String? { facts?.successor }

    /// The names of the current models, in alphabetical order.
    package static var currentNames: [String] { table.filter { $0.value.successor == nil }.keys.sorted() }

    /// Rooms: JavaScript SDK 0.1.20; what it lacks: Python SDK 0.2.4, `models.py`, which has 1280x720 for `lucy-2.1` and
    /// `lucy-latest` and no `lucy-vton-2` and `-3`, or the last one that had a retired model (0.1.4; `mirage_v2`:
    /// 0.1.2). Direct connections: Decart's Swift guide. Images: Swift SDK 0.6.6 sends none to the restyle models, which
    /// take them according to decart-python 07280d5.
    private static let table: [String: Facts] = {
        func hd(_ framerate: Int, height: Int = 720) -> VideoFormat {
            VideoFormat(width: 1280, height: height, framerate: framerate)
        }
        func small(_ framerate: Int) -> VideoFormat { VideoFormat(width: 1088, height: 624, framerate: framerate) }
        let restyle = Facts(webrtc: hd(22, height: 704), livekit: hd(30, height: 704), takesImage: false)
        var mirage = restyle
        mirage.successor = "lucy-restyle-2"
        let current = Facts(webrtc: hd(30), livekit: hd(30), isFast: true)
        var latest = current
        latest.livekit = small(30)
        let tryOn = Facts(webrtc: small(20), livekit: small(30))
        var retiredTryOn = tryOn
        retiredTryOn.successor = "lucy-vton-latest"
        return [
            "lucy-restyle-2": restyle,
            "lucy-restyle-latest": restyle,
            "lucy-2.1": tryOn,
            "lucy-2.5": current,
            "lucy-2.6": current,
            "lucy-latest": latest,
            "lucy-vton-3.5": current,
            "lucy-vton-3.6": current,
            "lucy-vton-latest": current,
            "mirage_v2": mirage,
            "lucy_v2v_14b_rt": Facts(webrtc: hd(22), livekit: hd(30), successor: "lucy-latest"),
            "lucy_2_rt": Facts(webrtc: hd(20), livekit: hd(30), successor: "lucy-latest"),
            "lucy-2.1-vton-2": retiredTryOn,
            "lucy-vton-2": tryOn,
            "lucy-vton-3": tryOn,
        ]
    }()
}
