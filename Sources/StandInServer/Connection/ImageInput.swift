import DecartProtocol

package enum ImageInput {
    /// - Returns: The hash that selects the tint, or the reason for a refusal.
    package static func hash(base64: String) -> Result<UInt64, Refusal> {
        // RFC 4648 §4: four digits for each three bytes, the last group padded. Check the size before decoding.
        guard base64.utf8.count <= (ReferenceImage.maximumSize + 2) / 3 * 4 else {
            return .failure(Refusal(words: "the image is larger than \(ReferenceImage.maximumSize >> 20) MiB"))
        }
        guard let bytes = Base64.decode(base64) else {
            return .failure(Refusal(words: "image_data is not base64"))
        }
        do throws(ProtocolError) {
            return .success(StableHash.fnv1a(try ReferenceImage(bytes: bytes).bytes))
        } catch {
            return .failure(Refusal(words: error.message))
        }
    }
}

package struct Refusal: Error, Equatable {
    package let words: String
}
