// libFuzzer entry point for control-channel messages and recordings of them: no message of a service and no file may
// trap.
import DecartProtocol

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    let bytes = [UInt8](UnsafeBufferPointer(start: data, count: count))
    if let message = try? ServerMessage(decoding: bytes) {
        _ = "\(message)"
        _ = try? message.encoded()
    }
    if let recording = try? ControlRecording(parsing: bytes) {
        // Writing and reading a recording again must not change it.
        guard let text = try? recording.encoded() else { return 0 }
        precondition((try? ControlRecording(parsing: [UInt8](text.utf8))) == recording)
    }
    return 0
}
