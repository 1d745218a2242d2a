import DecartProtocol

package enum ImageInput {
    /// The hash that selects the tint.
    package static func hash(base64: String) throws(Refusal) -> UInt64 {
        // RFC 4648 §4: four digits for each three bytes, the last group padded. Check the size before decoding.
        guard base64.utf8.count <= (ReferenceImage.maximumSize + 2) / 3 * 4 else {
            throw Refusal(reason: "the image is larger than \(ReferenceImage.maximumSize >> 20) MiB")
        }
        guard let bytes = Base64.decode(base64) else { throw Refusal(reason: "image_data is not base64") }
        do throws(ProtocolError) {
            return StableHash.fnv1a(try ReferenceImage(bytes: bytes).bytes)
        } catch {
            throw Refusal(reason: error.message)
        }
    }
}

package struct Refusal: Error, Equatable {
    package let reason: String
}
