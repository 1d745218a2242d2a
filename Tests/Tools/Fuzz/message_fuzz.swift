// libFuzzer entry point for control-channel messages: no message of a service may trap.
import DecartProtocol

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    let bytes = [UInt8](UnsafeBufferPointer(start: data, count: count))
    if let message = try? ServerMessage(decoding: bytes) {
        _ = "\(message)"
        _ = try? message.encoded()
    }
    return 0
}
