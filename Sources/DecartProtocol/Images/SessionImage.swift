/// The reference image of a session: an image to send, or one that the service has already.
package enum SessionImage: Sendable, Equatable {
    case image(ReferenceImage)
    /// An uploaded file, by its ID.
    case file(id: String)

    /// Bytes that are sent; 0: those of an uploaded file are at the service.
    package var size: Int { if case .image(let image) = self { image.bytes.count } else { 0 } }

    /// - Parameter text: the path of a file, a `data:` URL, or the ID of an uploaded file (`file_` with letters, digits,
    ///   `-` and `_`). A file whose name looks like an ID needs a path with a slash.
    package init(_ text: String) throws(ProtocolError) {
        if Self.isFileID(text) {
            self = .file(id: text)
        } else if DataURL.isDataURL(text) {
            self = .image(try ReferenceImage(bytes: DataURL(text).bytes))
        } else {
            self = .image(try ReferenceImage(path: text))
        }
    }

    private static func isFileID(_ text: String) -> Bool {
        text.hasPrefix("file_") && (6...256).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isAlphanumeric(or: "-_") }
    }

    package var message: SetImageMessage.Image {
        switch self {
        case .image(let image): .data(base64: image.base64)
        case .file(let id): .reference(id)
        }
    }
}
