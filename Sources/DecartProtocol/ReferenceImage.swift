/// A picture that may be sent to the service: still, whole, of a known format and a sane size.
/// The header is read, nothing is decoded.
package struct ReferenceImage: Sendable, Equatable {
    package enum Format: String, Sendable, CaseIterable {
        case jpeg, png, webp, tiff
    }

    /// 10 MiB
    package static let maximumSize = 10 << 20
    /// Pixels per side, and in all.
    package static let maximumSide = 8192
    package static let maximumPixels = 33_000_000

    package let format: Format
    /// Pixels.
    package let width: Int
    package let height: Int
    /// Without place, time and author.
    package let bytes: [UInt8]

    /// Throws `INVALID_INPUT` with a sentence that says what is wrong.
    package init(bytes: [UInt8]) throws(ProtocolError) {
        guard !bytes.isEmpty else { throw ProtocolError(.invalidInput, "The reference image is empty.") }
        guard bytes.count <= ReferenceImage.maximumSize else { throw ReferenceImage.tooLarge }
        guard let header = ImageHeader(bytes) else {
            throw ProtocolError(
                .invalidInput, "The reference image is not a whole, still JPEG, PNG, WebP or TIFF picture.")
        }
        let (width, height) = (header.width, header.height)
        guard width > 0, height > 0, width <= ReferenceImage.maximumSide, height <= ReferenceImage.maximumSide,
            width * height <= ReferenceImage.maximumPixels
        else {
            throw ProtocolError(
                .invalidInput,
                "The reference image has \(width) × \(height) pixels; at most \(ReferenceImage.maximumSide) a side "
                    + "and \(ReferenceImage.maximumPixels) in all are taken.")
        }
        format = header.format
        self.width = width
        self.height = height
        self.bytes = ImageMetadata.stripped(bytes, format: header.format)
    }

    /// Reads a regular file; see `BoundedFile`.
    package init(path: String) throws(ProtocolError) {
        let bytes: [UInt8]
        do {
            bytes = try BoundedFile.read(path: path, maximumSize: ReferenceImage.maximumSize)
        } catch {
            switch error {
            case .tooLarge: throw ReferenceImage.tooLarge
            case .notRegular: throw ProtocolError(.invalidInput, "The reference image is not a regular file.")
            case .system(let reason):
                throw ProtocolError(.invalidInput, "The reference image cannot be read: \(reason).")
            }
        }
        try self.init(bytes: bytes)
    }

    /// As the wire wants it.
    package var base64: String { Base64.encode(bytes) }

    private static let tooLarge = ProtocolError(.invalidInput, "The reference image is larger than 10 MiB.")
}

extension ReferenceImage: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Without the bytes: a picture is personal data, and a log is no place for megabytes.
    package var description: String { "\(format.rawValue) \(width)×\(height), \(bytes.count) bytes" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["image": description]) }
}
