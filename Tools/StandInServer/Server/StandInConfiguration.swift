package import DecartProtocol

package struct StandInConfiguration: Sendable {
    package static let defaultPort = 9001

    /// Nil: both loopback addresses, 127.0.0.1 and ::1.
    package var host: String?
    /// 0: any free port.
    package var port = StandInConfiguration.defaultPort
    package var tls: TLSFiles?
    /// Path to write the certificate of a throwaway authority to, PEM. The service then uses wss:// with a certificate
    /// of that authority, and `tls_bad_*` have their own. Excludes `tls`; needs the openssl command.
    package var throwawayAuthority: String?
    package var keys = KeyPolicy()
    /// Refuses messages, fields, query items and models that no SDK of Decart sends.
    package var isStrict = false
    /// Pages of any origin may connect, with any `Host`.
    package var allowsBrowsers = false
    /// Supported transports; if both, the client's first message decides.
    package var transports: Set<MediaTransportKind> = [.webrtc, .livekit]
    /// Direct connections: send candidates as messages after the answer; otherwise the answer holds all of them, as the
    /// service's did.
    package var tricklesCandidates = false
    package var rooms = RoomOptions()
    package var media = MediaOptions()
    /// Concurrent sessions; further ones are refused with HTTP 503.
    package var maximumSessionCount = 32
    /// Concurrent sessions that the account permits; further ones get `limitAnswer`. Nil: no limit.
    package var sessionLimit: Int?
    package var limitAnswer = LimitAnswer.error
    /// Limit of sessions with client tokens that request none, seconds; nil: unlimited.
    package var maximumSessionDuration: Int?
    /// Bytes of a WebSocket message; a client that sends more is disconnected.
    package var maximumMessageSize = ClientMessage.maximumSize
    /// The way in which the output comes back after a generation has ended because no frames arrived.
    package var idleOutput = Fault.Output.same
    /// False: behave like a service that does not know `pixel_latency`.
    package var answersLatencyMarker = true
    /// Called for each line, from any thread, without line feed. No line holds a key or a prompt.
    package var log: @Sendable (String) -> Void = { _ in }

    package var faults: [Fault] = []
    /// Sessions send the messages of this recording. Excludes `faults`.
    package var replay: ControlRecording?
    /// Port of the control endpoint, on 127.0.0.1; 0: any free port; nil: no endpoint.
    package var controlPort: Int?
    package var servesPage = false
    /// Name or address under which browsers of other machines reach the page, at `host` if that is set. The control
    /// endpoint then answers other machines too, with the page's token only. Nil: this machine only.
    package var pageHost: String?
    /// The control endpoint shows the texts of prompts.
    package var showsPrompts = false
    /// Shown by the control endpoint.
    package var version = ""

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
