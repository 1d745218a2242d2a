// Messages of the control channel, and recordings of them.
import DecartProtocol

func messageInput(_ bytes: [UInt8]) {
    if let message = try? ServerMessage(decoding: bytes) {
        _ = "\(message)"
        _ = try? message.encoded()
    }
    if let recording = try? ControlRecording(parsing: bytes) {
        // Writing and reading a recording again must not change it.
        guard let text = try? recording.encoded() else { return }
        precondition((try? ControlRecording(parsing: [UInt8](text.utf8))) == recording)
    }
}
