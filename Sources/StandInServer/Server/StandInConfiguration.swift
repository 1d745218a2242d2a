package import DecartProtocol
import ICE

package struct StandInConfiguration: Sendable {
    /// A prompt that contains this is refused.
    package static let refusalWord = "refuse-me"
    package static let defaultPort = 9001

    /// Nil: both loopback addresses, 127.0.0.1 and ::1.
    package var host: String?
    /// 0: any free port.
    package var port = StandInConfiguration.defaultPort
    /// Nil: unencrypted.
    package var tls: TLSFiles?
    /// A file to write the certificate of a throwaway authority to, PEM; the service is then wss:// with a certificate
    /// of that authority, and `tls_bad_*` have theirs. Not together with `tls`. Wants the openssl command.
    package var throwawayAuthority: String?
    package var keys = KeyPolicy()
    /// Web pages of any origin may connect, and the service may be reached by any name.
    package var allowsBrowsers = false
    /// How media may go; where both are served, the client's first message decides.
    package var transports: Set<TransportGeneration> = [.webrtc, .livekit]
    /// Candidates of a direct connection come as messages of their own, after the answer; otherwise the answer holds them
    /// all, as the service's did.
    package var tricklesCandidates = false
    /// Rooms may be joined with one connection for both directions too.
    package var servesSingleConnections = true
    /// Handed to those who join a room.
    package var roomICE = RoomICE()
    /// Sessions at the same time; one more is refused with HTTP 503.
    package var maximumSessionCount = 32
    /// Bytes of a WebSocket message; a client that sends more is disconnected.
    package var maximumMessageSize = ClientMessage.maximumSize
    /// Of the video that goes back, in bit/s.
    package var bitrate = 2_500_000
    /// How long a lost packet of the client's is waited for.
    package var latency = Duration.milliseconds(400)
    /// How long a model thinks before a picture goes back.
    package var delay = Duration.zero
    /// False: as a service that does not know `pixel_latency`.
    package var answersLatencyMarker = true
    /// One line a call, from any thread, without line feed. No line holds a key or a prompt.
    package var log: @Sendable (String) -> Void = { _ in }

    package var faults: [Fault] = []
    /// Of the control endpoint, on 127.0.0.1 only; 0: any free port; nil: there is none.
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
