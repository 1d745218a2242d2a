// Messages of the control channel, with the causes of errors, and recordings of messages.
import DecartProtocol
import DecartSession

func messageInput(_ bytes: [UInt8]) {
    if let message = try? ServerMessage(decoding: bytes) {
        _ = "\(message)"
        if case .error(let text, let word, _) = message {
            check(SessionError.service(text, type: ServiceErrorType(word, text: text), stage: .channel))
        }
        _ = try? message.encoded()
    }
    if let recording = try? ControlRecording(parsing: bytes) {
        // Writing and reading a recording again must not change it.
        guard let text = try? recording.encoded() else { return }
        precondition((try? ControlRecording(parsing: [UInt8](text.utf8))) == recording)
    }
}
