/// A `data:` URL (RFC 2397) of a reference image: `data:[<media type>][;base64],<data>`.
struct DataURL {
    let bytes: [UInt8]

    static func isDataURL(_ text: String) -> Bool { text.prefix(5).lowercased() == "data:" }

    init(_ text: String) throws(ProtocolError) {
        guard let comma = text.utf8.firstIndex(of: UInt8(ascii: ",")) else {
            throw ProtocolError(.invalidInput, "The data: URL of the reference image has no comma before its data.")
        }
        let head = text[..<comma].dropFirst(5).lowercased()
        let data = text[comma...].dropFirst()
        let type = head.prefix { $0 != ";" }
        guard type.isEmpty || type.hasPrefix("image/") else {
            throw ProtocolError(
                .invalidInput, "The data: URL of the reference image has another media type than image/….")
        }
        // Checked before decoding: each byte may be escaped, with three characters.
        guard data.utf8.count <= ReferenceImage.maximumSize * 3 else { throw ReferenceImage.tooLarge }
        guard head.hasSuffix(";base64") else {
            guard let bytes = PercentEncoding.decodedBytes(data) else {
                throw ProtocolError(
                    .invalidInput, "The data: URL of the reference image has an invalid percent-encoding in its data.")
            }
            self.bytes = bytes
            return
        }
        // Base64 may itself be percent-encoded, in whole or in part.
        let digits = PercentEncoding.decode(data)
        guard digits?.utf8.count ?? 0 <= (ReferenceImage.maximumSize + 2) / 3 * 4 else { throw ReferenceImage.tooLarge }
        guard let bytes = digits.flatMap({ Base64.decode($0) }) else {
            throw ProtocolError(.invalidInput, "The data: URL of the reference image is not valid base64.")
        }
        self.bytes = bytes
    }

    /// The URL without its data, for display.
    static func shortened(_ text: String) -> String {
        guard isDataURL(text) else { return text }
        return text.prefix { $0 != "," }.prefix(64) + ",…"
    }
}

extension SessionImage {
    /// The text of the property as it may be shown: an image is personal data, and may have megabytes.
    package static func shown(_ text: String) -> String { DataURL.shortened(text) }
}
