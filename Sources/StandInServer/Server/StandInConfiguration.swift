package import DecartProtocol
import ICE

package struct StandInConfiguration: Sendable {
    /// A prompt that contains this word is refused.
    package static let refusalWord = "refuse-me"
    package static let defaultPort = 9001

    /// Nil: both loopback addresses, 127.0.0.1 and ::1.
    package var host: String?
    /// 0: any free port.
    package var port = StandInConfiguration.defaultPort
    /// Nil: unencrypted.
    package var tls: TLSFiles?
    /// Path to write the certificate of a throwaway authority to, PEM. The service then uses wss:// with a certificate
    /// of that authority, and `tls_bad_*` have their own. Excludes `tls`; needs the openssl command.
    package var throwawayAuthority: String?
    package var keys = KeyPolicy()
    /// Pages of any origin may connect, with any `Host`.
    package var allowsBrowsers = false
    /// Supported transports; if both, the client's first message decides.
    package var transports: Set<MediaTransportKind> = [.webrtc, .livekit]
    /// Direct connections: send candidates as messages after the answer; otherwise the answer holds all of them, as the
    /// service's did.
    package var tricklesCandidates = false
    /// Rooms also accept a single connection for both directions.
    package var servesSingleConnections = true
    /// Sent to clients that join a room.
    package var roomICE = RoomICE()
    /// Concurrent sessions; further ones are refused with HTTP 503.
    package var maximumSessionCount = 32
    /// Bytes of a WebSocket message; a client that sends more is disconnected.
    package var maximumMessageSize = ClientMessage.maximumSize
    /// Bitrate of the transformed video, bit/s.
    package var bitrate = 2_500_000
    /// Latency of the jitter buffer: how long it waits for a lost packet.
    package var latency = Duration.milliseconds(400)
    /// Simulated inference time of a frame.
    package var delay = Duration.zero
    /// False: behave like a service that does not know `pixel_latency`.
    package var answersLatencyMarker = true
    /// Called for each line, from any thread, without line feed. No line holds a key or a prompt.
    package var log: @Sendable (String) -> Void = { _ in }

    package var faults: [Fault] = []
    /// Port of the control endpoint, on 127.0.0.1 only; 0: any free port; nil: no endpoint.
    package var controlPort: Int?

    package init() {}

    /// Paths of PEM files.
    package struct TLSFiles: Sendable, Equatable {
        package var certificateChain: String
        package var privateKey: String

        package init(certificateChain: String, privateKey: String) {
            self.certificateChain = certificateChain
            self.privateKey = privateKey
        }
    }
}
