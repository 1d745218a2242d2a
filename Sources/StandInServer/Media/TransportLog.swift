// The log of a peer connection in the words of the elements' own: `ice: connected after 12.0 ms: …`.
import Logging
import WebRTCTransport

extension TransportLoggers {
    /// Passes messages from INFO on to `write`, on any thread.
    init(writing write: @escaping @Sendable (String) -> Void) {
        func logger(_ layer: String) -> Logger { Logger(label: layer) { LineHandler(layer: $0, write: write) } }
        self.init(ice: logger("ice"), dtls: logger("dtls"), rtp: logger("rtp"), congestion: logger("congestion"))
    }
}

private struct LineHandler: LogHandler {
    let layer: String
    let write: @Sendable (String) -> Void
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { write("\(layer): \(event.message)") }
}
