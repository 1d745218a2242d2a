// Properties that act on raw frames, and so on no side that is encoded: docs/ENCODED.md has the table.
import DecartProtocol
import MediaPipeline
import RTP
import WebRTCTransport

extension TransformSettings {
    /// The first property that is set and needs raw input, with its value if that decides; nil: there is none.
    /// - Parameter property: only this one counts; nil: all.
    func propertyForRawInput(by property: String? = nil) -> String? {
        let rows: [(name: String, isSet: Bool)] = [
            ("processor", processor?.contains { !$0.isWhitespace } ?? false), ("fit=\(fit.rawValue)", fit != .crop),
            ("encoder", !encoding.encoder.isEmpty), ("simulcast", encoding.simulcast),
            ("timestamps=capture", timestamps == .capture),
            ("fallback=passthrough", fallback == .passthrough),
        ]
        return rows.first { $0.isSet && $0.name.hasPrefix(property ?? "") }?.name
    }

    /// A sentence about the first property that an encoded input rules out; nil: there is none.
    /// - Parameter property: only this one counts; nil: all.
    func conflict(withInput codec: VideoCodec, by property: String? = nil) -> String? {
        if let name = propertyForRawInput(by: property) {
            return
                "\(name) needs raw video, but the input is \(codec.encodingName). Unset it, or decode in front of the "
                + "element."
        }
        return property == nil ? conflict(withCodec: codec) : nil
    }

    /// A sentence if another codec than the input's is set.
    func conflict(withCodec codec: VideoCodec) -> String? {
        guard encoding.codec != .auto, encoding.videoCodec(.webrtc) != codec else { return nil }
        return "codec=\(encoding.codec.rawValue) is set, but the input is \(codec.encodingName). Unset codec."
    }

    /// The same for an encoded output.
    func conflictWithEncodedOutput(by property: String? = nil) -> String? {
        let rows: [(name: String, isSet: Bool)] = [
            ("fallback=\(fallback.rawValue)", fallback == .black || fallback == .passthrough),
            ("timestamps=capture", timestamps == .capture),
        ]
        return rows.first { $0.isSet && $0.name.hasPrefix(property ?? "") }.map {
            "\($0.name) needs raw video, but downstream takes encoded video only. Unset it, or decode behind the element."
        }
    }
}
