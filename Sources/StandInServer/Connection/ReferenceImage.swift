import DecartProtocol

/// A reference image as far as the stand-in cares: is it one, and which.
enum ReferenceImage {
    static let maximumByteCount = 10 << 20

    /// - Returns: the hash that chooses the tint, or why there is none.
    static func hash(base64: String) -> Result<UInt64, Refusal> {
        let tooLarge = Refusal(words: "the image is larger than 10 MiB")
        // RFC 4648 §4: four digits for three bytes, the last group padded. What cannot fit is not decoded first.
        guard base64.utf8.count <= (maximumByteCount + 2) / 3 * 4 else { return .failure(tooLarge) }
        guard let bytes = Base64.decode(base64), !bytes.isEmpty else {
            return .failure(Refusal(words: "image_data is not base64"))
        }
        guard bytes.count <= maximumByteCount else { return .failure(tooLarge) }
        guard isImage(bytes) else {
            return .failure(Refusal(words: "the image is neither JPEG, PNG, WebP nor TIFF"))
        }
        return .success(StableHash.fnv1a(bytes))
    }

    private static func isImage(_ bytes: [UInt8]) -> Bool {
        let signatures: [[UInt8]] = [
            [0xff, 0xd8, 0xff], [0x89, 0x50, 0x4e, 0x47], [0x49, 0x49, 0x2a, 0x00], [0x4d, 0x4d, 0x00, 0x2a],
        ]
        return signatures.contains { bytes.starts(with: $0) }
            || bytes.starts(with: "RIFF".utf8) && bytes.dropFirst(8).starts(with: "WEBP".utf8)
    }
}

/// The words of a negative acknowledgement.
struct Refusal: Error, Equatable {
    let words: String
}
