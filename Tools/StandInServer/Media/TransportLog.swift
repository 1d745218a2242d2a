// The log of a peer connection in the words of the elements' own: `ice: connected after 12.0 ms: …`.
import Log
import WebRTCTransport

extension TransportLoggers {
    /// Passes messages from INFO on to `write`, on any thread.
    init(writing write: @escaping @Sendable (String) -> Void) {
        func logger(_ layer: String) -> Logger {
            Logger(isEnabled: { $0 <= .info }, write: { write("\(layer): \($0.text)") })
        }
        self.init(ice: logger("ice"), dtls: logger("dtls"), rtp: logger("rtp"), congestion: logger("congestion"))
    }
}
