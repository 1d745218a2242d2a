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
        let livekit: VideoFormat
        let takesImage: Bool
        var isFast = false
    }

    /// Throws `INVALID_OPTIONS` if the name is empty, longer than 128 bytes, or has white space or control characters.
    package init(named name: String) throws(ProtocolError) {
        guard !name.isEmpty, name.utf8.count <= 128,
            !name.hasControlCharacters, !name.unicodeScalars.contains(where: \.properties.isWhitespace)
        else {
            throw ProtocolError(.invalidOptions, "The model's name is empty, too long or has a space in it.")
        }
        self.name = name
        facts = DecartModel.table[name]
    }

    package var description: String { name }

    /// True if the name is not in the table.
    package var isCustom: Bool { facts == nil }

    /// Returns nil for a custom model.
    package func format(
        for transport: MediaTransportKind, orientation: Orientation = .landscape
    ) -> VideoFormat? {
        guard let facts else { return nil }
        return (transport == .webrtc ? facts.webrtc : facts.livekit).oriented(orientation)
    }

    /// True if the model accepts a reference image. A custom model is assumed to accept one.
    package var supportsReferenceImage: Bool { facts?.takesImage ?? true }

    /// True if the model supports `speed=fast`. A custom model is assumed to support it.
    package var supportsFastSpeed: Bool { facts?.isFast ?? true }

    /// All names in the table, in alphabetical order.
    package static var knownNames: [String] { table.keys.sorted() }

    private static let table: [String: Facts] = {
        func hd(_ framerate: Int, height: Int = 720) -> VideoFormat {
            VideoFormat(width: 1280, height: height, framerate: framerate)
        }
        let restyle = Facts(webrtc: hd(22, height: 704), livekit: hd(30, height: 704), takesImage: false)
        let current = Facts(webrtc: hd(30), livekit: hd(30), takesImage: true, isFast: true)
        let older22 = Facts(webrtc: hd(22), livekit: hd(30), takesImage: true)
        let older20 = Facts(webrtc: hd(20), livekit: hd(30), takesImage: true)
        return [
            "lucy-restyle-2": restyle,
            "lucy-restyle-latest": restyle,
            "mirage_v2": restyle,
            "lucy-2.1": Facts(
                webrtc: VideoFormat(width: 1088, height: 624, framerate: 20), livekit: hd(30), takesImage: true),
            "lucy-2.5": current,
            "lucy-2.6": current,
            "lucy-latest": current,
            "lucy-vton-3.5": current,
            "lucy-vton-3.6": current,
            "lucy-vton-latest": current,
            "lucy_v2v_14b_rt": older22,
            "lucy_2_rt": older20,
            "lucy-2.1-vton-2": older20,
            "lucy-vton-2": older20,
            "lucy-vton-3": older20,
        ]
    }()
}
