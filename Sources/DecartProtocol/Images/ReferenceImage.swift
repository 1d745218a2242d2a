/// An image that may be sent to the service: still, complete, of a known format and of acceptable size. Reads only the
/// file's structure and decodes nothing.
package struct ReferenceImage: Sendable, Equatable {
    package enum Format: String, Sendable, CaseIterable {
        case jpeg, png, webp, tiff
    }

    /// Bytes (10 MiB).
    package static let maximumSize = 10 << 20
    /// Pixels a side; `maximumPixels` limits the whole image.
    package static let maximumSide = 8192
    package static let maximumPixels = 33_000_000

    package let format: Format
    package let width: Int
    package let height: Int
    /// The file's content without its metadata; see `StillImage`.
    package let bytes: [UInt8]

    /// Throws `INVALID_INPUT` with a sentence that names the cause.
    package init(bytes: [UInt8]) throws(ProtocolError) {
        guard !bytes.isEmpty else { throw ProtocolError(.invalidInput, "The reference image is empty.") }
        guard bytes.count <= ReferenceImage.maximumSize else { throw ReferenceImage.tooLarge }
        guard let image = StillImage(bytes) else {
            throw ProtocolError(
                .invalidInput, "The reference image is not a complete, still JPEG, PNG, WebP or TIFF image.")
        }
        let (width, height) = (image.width, image.height)
        guard width > 0, height > 0, width <= ReferenceImage.maximumSide, height <= ReferenceImage.maximumSide,
            width * height <= ReferenceImage.maximumPixels
        else {
            throw ProtocolError(
                .invalidInput,
                "The reference image has \(width) × \(height) pixels; at most \(ReferenceImage.maximumSide) a side "
                    + "and \(ReferenceImage.maximumPixels) in all are taken.")
        }
        guard let stripped = image.stripped else {
            throw ProtocolError(
                .invalidInput, "The metadata of the reference image cannot be removed. Convert the image to PNG.")
        }
        format = image.format
        self.width = width
        self.height = height
        self.bytes = stripped
    }

    /// Reads a regular file; see `BoundedFile`. The errors name it.
    package init(path: String) throws(ProtocolError) {
        let image: ReferenceImage
        do throws(ProtocolError) {
            image = try ReferenceImage(bytes: ReferenceImage.content(of: path))
        } catch {
            let file = "The file is '\(path.printable(limit: 200))'.\(Self.advice(on: path))"
            throw ProtocolError(error.code, "\(error.message) \(file)")
        }
        self = image
    }

    /// A path as a shell or a browser takes it, and as the file system does not.
    private static func advice(on path: String) -> String {
        if path.hasPrefix("~") { return " A ~ is not expanded: write the whole path." }
        if path.hasPrefix("file:") { return " Write the path without file://." }
        return path.contains("://") ? " Addresses are not fetched: download the file." : ""
    }

    private static func content(of path: String) throws(ProtocolError) -> [UInt8] {
        do {
            return try BoundedFile.read(path: path, maximumSize: maximumSize)
        } catch {
            switch error {
            case .tooLarge: throw tooLarge
            case .notRegular: throw ProtocolError(.invalidInput, "The reference image is not a regular file.")
            case .system(let reason):
                throw ProtocolError(.invalidInput, "The reference image cannot be read: \(reason).")
            }
        }
    }

    /// The bytes as `image_data` carries them.
    package var base64: String { Base64.encode(bytes) }

    static let tooLarge = ProtocolError(.invalidInput, "The reference image is larger than 10 MiB.")
}

extension ReferenceImage: Redacted {
    /// Omits the bytes: an image is personal data, and a log is no place for megabytes.
    package var description: String { "\(format.rawValue) \(width)×\(height), \(bytes.count) bytes" }
}
