// Reference images: stripping metadata must keep the format and the size of the image.
import DecartProtocol

func imageInput(_ bytes: [UInt8]) {
    guard let image = try? ReferenceImage(bytes: bytes) else { return }
    precondition(image.bytes.count <= bytes.count + 64)
    guard let again = try? ReferenceImage(bytes: image.bytes) else { fatalError("the stripped image is not valid") }
    precondition((again.format, again.width, again.height) == (image.format, image.width, image.height))
    precondition(again.bytes == image.bytes, "a second stripping changed the image")
    _ = "\(image)"
}
