// libFuzzer entry point for reference images: no file may trap, and stripping metadata must keep the format and the
// size of the image.
import DecartProtocol

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    let bytes = [UInt8](UnsafeBufferPointer(start: data, count: count))
    guard let image = try? ReferenceImage(bytes: bytes) else { return 0 }
    precondition(image.bytes.count <= bytes.count + 64)
    guard let again = try? ReferenceImage(bytes: image.bytes) else { fatalError("the stripped image is not valid") }
    precondition((again.format, again.width, again.height) == (image.format, image.width, image.height))
    precondition(again.bytes == image.bytes, "a second stripping changed the image")
    _ = "\(image)"
    return 0
}
