import CRelease
import CommandLineOptions
import DecartProtocol
import Glibc
import ICE
import StandInServer

struct StandInCommand: Command {
    private var port = StandInConfiguration.defaultPort
    private var host: String?
    private var apiKey: [String] = []
    private var rejectKey: [String] = []
    private var tlsCert: String?
    private var tlsKey: String?
    private var tlsCA: String?
    private var maxSessions = StandInConfiguration().maximumSessionCount
    private var limit: Int?
    private var limitAnswer = StandInConfiguration().limitAnswer
    private var maxSessionDuration: Int?
    private var bitrate = MediaOptions().bitrate
    private var echoEncoded = false
    private var fixedBitrate = false
    private var delay = 0
    private var idleOutput = StandInConfiguration().idleOutput
    private var rtpPorts: String?
    private var iceTCP = false
    private var fault: [String] = []
    private var replay: RawArgument?
    private var control: Int?
    private var transport = "both"
    private var trickle = false
    private var allowBrowser = false
    private var strict = false
    private var iceServer: [String] = []
    private var forceRelay = false
    private var noSingleConnection = false
    private var serverCodec = RoomOptions().codec
    private var roomCodec: [RoomCodec] = []
    private var noPacketTrailers = false
    private var timeTrailers = false
    private var web = false
    private var webHost: String?
    private var showPrompts = false
    private var quiet = false

    static var table: OptionTable<StandInCommand> {
        OptionTable(
            "decart-standin",
            abstract: "A stand-in for Decart's realtime service, to try pipelines with and to test against.",
            discussion: discussion, options: connectionOptions + sessionOptions + roomOptions + programOptions,
            others: .gstreamer())
    }

    private static var connectionOptions: [CommandOption<StandInCommand>] {
        [
            .number(
                "port", "number", \.port, in: 0...65535, "TCP port to listen on; 0 takes any free one."),
            .value(
                "host", "address", \.host,
                "Address to listen on. Without it, both loopback addresses: 127.0.0.1 and ::1."),
            .list("api-key", "key", \.apiKey, "Accept this key and no other. May be given more than once."),
            .list("reject-key", "key", \.rejectKey, "Answer this key with HTTP 401. May be given more than once."),
            .value(
                "tls-cert", "file", \.tlsCert, "Certificate chain, PEM; with --tls-key the service is wss://."),
            .value("tls-key", "file", \.tlsKey, "Private key of the certificate, PEM."),
            .value(
                "tls-ca", "file", \.tlsCA,
                "Be wss:// with a certificate of a throwaway authority, whose own is written to this file."),
        ]
    }

    private static var sessionOptions: [CommandOption<StandInCommand>] {
        [
            .number(
                "max-sessions", "number", \.maxSessions, in: 1...1024,
                "Sessions at the same time; further ones get HTTP 503."),
            .number(
                "limit", "number", \.limit, in: 1...1024,
                "Sessions that the account permits at the same time; further ones get --limit-answer."),
            .value(
                "limit-answer", "answer", \.limitAnswer,
                "error (\"Concurrent session limit reached\", then close 1013), close (1013 alone) or http (429)."),
            .number(
                "max-session-duration", "seconds", \.maxSessionDuration, in: 1...1_000_000_000,
                "Seconds after which sessions end whose client token requested no maxSessionDuration."),
            .number(
                "bitrate", "number", \.bitrate, in: 50_000...100_000_000, "Bitrate of the returned video, in bit/s."),
            .flag(
                "fixed-bitrate", \.fixedBitrate,
                "Keep the bitrate of the returned video whatever the network carries, as a LiveKit server with one layer does."
            ),
            .flag(
                "echo-encoded", \.echoEncoded,
                "Return each encoded frame (H.264 of any profile, VP8, VP9) as it came: nothing is decoded or transformed."
            ),
            .number(
                "delay", "number", \.delay, in: 0...10_000,
                "Delay of the model before video and audio are returned, in ms."),
            .value(
                "idle-output", "output", \.idleOutput,
                "How the output comes back after two seconds without frames, which end the generation: one of the values of "
                    + "output= in generation_restart."),
            .value(
                "rtp-ports", "first-last", \.rtpPorts,
                "UDP ports of media, such as 40000-40049. Without it, any. A session uses one or two on each address."),
            .flag("ice-tcp", \.iceTCP, "Offer passive TCP candidates as well, at ports as of --rtp-ports."),
            .list("fault", "spec", \.fault, "A fault; see FAULTS. May be given more than once."),
            .value(
                "replay", "file", \.replay,
                "Send the messages of this recording of decart-check --record; media are as usual (REPLAY.md)."),
            .number(
                "control", "number", \.control, in: 0...65535, "Port of the control endpoint; 0 takes any free one."),
            .value(
                "transport", "way", \.transport,
                "Transport of media: webrtc (a direct connection), livekit (a room), or both; then the client's first message "
                    + "decides."),
            .flag(
                "trickle", \.trickle,
                "Send the candidates of a direct connection as messages after the answer (trickle ICE). Without it the "
                    + "answer holds them all, as the service's did."),
            .flag(
                "allow-browser", \.allowBrowser,
                "Take connections from web pages of any origin, and by any host name. Without it only pages of this machine "
                    + "may connect."),
            .flag(
                "strict", \.strict,
                "Refuse messages, fields, query items and models that no SDK of Decart sends: an error that names the first "
                    + "of them, then close 1008."),
        ]
    }

    private static var roomOptions: [CommandOption<StandInCommand>] {
        [
            .list(
                "ice-server", "url", \.iceServer,
                "A STUN or TURN server that rooms name to who joins, as decarttransform's turn-servers has it: "
                    + "turn://user:password@host:3478?transport=udp. May be given more than once."),
            .flag("force-relay", \.forceRelay, "Rooms let their participants use relays only."),
            .flag(
                "no-single-connection", \.noSingleConnection,
                "Rooms know two connections only: /rtc/v1 is answered with HTTP 404."),
            .value(
                "server-codec", "codec", \.serverCodec,
                "Codec of the video that rooms return: query (that of livekit_server_codec, else the client's), client (that of the "
                    + "client's video), h264, h264-mode0 (packets of one NAL unit), vp8, vp9 or h265."),
            .list(
                "room-codec", "codec", \.roomCodec,
                "A video codec that rooms allow: vp8, h264 or vp9 (default: all). May be given more than once."),
            .flag(
                "no-packet-trailers", \.noPacketTrailers,
                "Rooms carry no trailers of frames (LiveKit's frame metadata)."),
            .flag(
                "time-trailers", \.timeTrailers,
                "These trailers have the time and no number of the frame, as those of Decart's SDK for JavaScript."),
        ]
    }

    private static var programOptions: [CommandOption<StandInCommand>] {
        [
            .flag(
                "web", \.web, "Serve a page for browsers of this machine on the control port (9002 without --control)."),
            .value(
                "web-host", "name", \.webHost,
                "Serve the page for browsers of other machines too, which reach this one by this name or address. The "
                    + "address that is printed has a token, without which the port answers no other machine."),
            .flag(
                "show-prompts", \.showPrompts,
                "The control endpoint shows the texts of prompts; without it they are only counted."),
            .flag("quiet", short: "q", \.quiet, "Print nothing but the lines that say where it listens."),
            .page("version", "Show the version.") {
                "decart-standin \(DECART_VERSION), " + String(cString: decart_build_name()) + "\n"
            },
        ]
    }

    private static let discussion = """
        Speaks the service's control channel over WebSocket, and receives and returns video over WebRTC, directly or \
        through a LiveKit room of its own. It decodes, transforms and encodes each frame. Prints one line, "listening on ws://127.0.0.1:PORT", once \
        clients can connect, and with --control another one; everything else goes to standard error. No key and no \
        prompt is ever printed. SIGINT and SIGTERM close the sessions and end the program.

        EFFECTS (case-insensitive words anywhere in the prompt; the first match in this list applies)
          lego          mosaic of bricks, 16 x 16 pixels each
          anime         posterised: few levels, strong colours, warm cast
          cyberpunk     neon: dark inverted frame, glowing edges, violet cast
          noir          grey, with darker middle tones
          anything else the hue turned by 60 to 300 degrees by its hash
          refuse-me     the prompt is rejected
        A reference image tints the frames; its bytes select the tint. It combines with a prompt. Passthrough returns \
        the frames unchanged. So does a session that offers before a prompt, image or passthrough was accepted: this \
        reveals a client that would show its camera.
        Audio (Opus) is returned unchanged, whether it is offered at once, later, or withdrawn in between.

        FAULTS
        --fault NAME[:key=value,...] makes the stand-in misbehave; it may be given more than once. Every fault \
        but refuse knows count=N (for N connections) and after=N (from the Nth on, counted from 1); the list below has further keys. A \
        client may choose faults for one connection in its URL, without count and after: ...&fault=SPEC.

        \(FaultKind.help)

        CONTROL
          --control PORT opens an HTTP endpoint on 127.0.0.1 that changes faults while the stand-in runs:

        \(StandInServer.controlHelp)

        ENDPOINT
          ws://127.0.0.1:PORT/v1/stream?api_key=KEY&model=MODEL
          ws://127.0.0.1:PORT/rtc or /rtc/v1, with the token from livekit_room_info
          POST http://127.0.0.1:PORT/v1/client/tokens with the header X-API-KEY: a client token for expiresIn seconds, with \
        constraints.realtime.maxSessionDuration if that is requested
        With pixel_latency=1 the latency marker is copied to the transformed frame. In a room, so is the trailer of a \
        frame, if the client announces packet_trailer_features and CAP_PACKET_TRAILER. HTTP answers: 401 missing, \
        empty or rejected key; 400 no model; 403 a web page of another host (--allow-browser); 404 other \
        path; 426 not a WebSocket; 503 too many sessions.

        FILES
        Documents are in /usr/share/doc/decart-standin/docs, or in docs of the sources: FAULTS.md (how a pipeline \
        reacts to each fault), STANDIN.md (control port, page), REPLAY.md.

        EXAMPLE
          decart-standin &
          gst-launch-1.0 videotestsrc is-live=true ! decarttransform base-url=ws://127.0.0.1:9001 api-key=x \
        prompt="Lego World" ! videoconvert ! autovideosink
        """

    func validate() throws {
        guard (tlsCert == nil) == (tlsKey == nil) else {
            throw UsageError("--tls-cert and --tls-key belong together.")
        }
        guard tlsCA == nil || tlsCert == nil else {
            throw UsageError("--tls-ca has a certificate of its own: it goes without --tls-cert.")
        }
        guard transports != nil else { throw UsageError("--transport is webrtc, livekit or both.") }
        guard replay == nil || fault.isEmpty else {
            throw UsageError("--replay goes without --fault.")
        }
        if let webHost {
            let url = try? ServiceURL(base: "http://\(webHost.bracketed)", allowInsecure: true)
            guard url?.host == webHost.lowercased(), !["0.0.0.0", "::"].contains(webHost) else {
                throw UsageError(
                    "--web-host is the name or address of this machine that browsers of other machines use, without a "
                        + "port. To listen at all addresses, add --host 0.0.0.0.")
            }
        }
        // The rest is checked where it is parsed.
        _ = try serverConfiguration()
    }

    private func parsedPorts() throws -> ClosedRange<UInt16>? {
        guard let rtpPorts else { return nil }
        let ports = rtpPorts.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
        guard ports.count == 2, let first = ports[0], let last = ports[1], first > 0, first <= last else {
            throw UsageError("--rtp-ports is the first and the last port, such as 40000-40049.")
        }
        return first...last
    }

    /// Names the option in an error.
    private func parsing<Value>(_ option: String, _ body: () throws -> Value) throws -> Value {
        do { return try body() } catch { throw UsageError("\(option): \(error)") }
    }

    private var transports: Set<MediaTransportKind>? {
        transport == "both" ? Set(MediaTransportKind.allCases) : MediaTransportKind(rawValue: transport).map { [$0] }
    }

    private func recording() throws -> ControlRecording? {
        guard let replay else { return nil }
        let bytes: [UInt8]
        do throws(BoundedFileError) {
            bytes = try BoundedFile.read(name: replay.bytes, maximumSize: ControlRecording.maximumSize)
        } catch {
            throw UsageError("--replay: the file \(replay) cannot be read: \(error).")
        }
        do throws(ControlRecordingError) {
            return try ControlRecording(parsing: bytes)
        } catch {
            throw UsageError("--replay: \(replay), \(error)")
        }
    }

    func run() throws {
        // Catch signals first, so that one during the start is not lost.
        let signals = TerminationSignals()
        let server = StandInServer(configuration: try serverConfiguration())
        let port = try server.start()
        let scheme = tlsCert == nil && tlsCA == nil ? "ws" : "wss"
        Console.line("listening on \(scheme)://\(printedHost):\(port)", to: STDOUT_FILENO)
        if let port = server.controlPort {
            Console.line("control on http://127.0.0.1:\(port)", to: STDOUT_FILENO)
            if web || webHost != nil { Console.line("page on http://127.0.0.1:\(port)/", to: STDOUT_FILENO) }
            if let page = server.foreignPage { Console.line("page for other machines on \(page)", to: STDOUT_FILENO) }
        }
        signals.wait()
        server.stop()
    }

    private func serverConfiguration() throws -> StandInConfiguration {
        var configuration = StandInConfiguration()
        configuration.host = host
        configuration.port = port
        configuration.keys = KeyPolicy(accepted: apiKey.isEmpty ? nil : Set(apiKey), rejected: Set(rejectKey))
        configuration.maximumSessionCount = maxSessions
        configuration.sessionLimit = limit
        configuration.limitAnswer = limitAnswer
        configuration.maximumSessionDuration = maxSessionDuration
        configuration.media.bitrate = bitrate
        if let certificate = tlsCert, let key = tlsKey {
            configuration.tls = .init(certificateChain: certificate, privateKey: key)
        }
        configuration.throwawayAuthority = tlsCA
        configuration.media.adaptsBitrate = !fixedBitrate
        configuration.media.echoesEncoded = echoEncoded
        configuration.media.delay = .milliseconds(delay)
        configuration.idleOutput = idleOutput
        configuration.transports = transports ?? []
        configuration.tricklesCandidates = trickle
        configuration.allowsBrowsers = allowBrowser
        configuration.isStrict = strict
        configuration.rooms.ice.forcesRelay = forceRelay
        configuration.rooms.ice.servers = try iceServer.map { url in
            try parsing("--ice-server") { try ICEServer(url: url) }
        }
        configuration.media.network.ports = try parsedPorts()
        configuration.media.network.listensForTCP = iceTCP
        configuration.rooms.servesSingleConnections = !noSingleConnection
        configuration.rooms.carriesTrailers = !noPacketTrailers
        configuration.rooms.trailersHaveTimeAlone = timeTrailers
        configuration.rooms.codec = serverCodec
        if !roomCodec.isEmpty { configuration.rooms.allowedCodecs = Set(roomCodec) }
        configuration.faults = try parsing("--fault") { try FaultPlan(parsing: fault).faults }
        configuration.controlPort = control ?? (web || webHost != nil ? 9002 : nil)
        configuration.servesPage = web || webHost != nil
        configuration.pageHost = webHost
        configuration.showsPrompts = showPrompts
        configuration.version = DECART_VERSION
        configuration.replay = try recording()
        if !quiet { configuration.log = { Console.line($0, to: STDERR_FILENO) } }
        return configuration
    }

    private var printedHost: String {
        guard let host else { return "127.0.0.1" }
        return host.contains(":") ? "[\(host)]" : host
    }
}

/// SIGINT and SIGTERM, from now on. Dispatch's signal sources begin at some later moment, and lose what comes before.
struct TerminationSignals {
    private var signals = sigset_t()

    /// Call it before any other thread exists: threads inherit the mask, so that only `wait` takes the signals.
    init() {
        sigemptyset(&signals)
        for number in [SIGINT, SIGTERM] {
            sigaddset(&signals, number)
            // A shell's background process starts with SIGINT ignored, and an ignored signal is lost.
            signal(number, SIG_DFL)
        }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        // Ignore SIGPIPE: a closed reader of our output must not end the service.
        signal(SIGPIPE, SIG_IGN)
    }

    func wait() {
        var (signals, number) = (signals, CInt(0))
        _ = sigwait(&signals, &number)
    }
}

extension Fault.Output: OptionValue {}
extension LimitAnswer: OptionValue {}
extension ServerCodec: OptionValue {}
extension RoomCodec: OptionValue {}

@main
enum Main {
    static func main() { StandInCommand.main() }
}

enum Console {
    /// One unbuffered write per line: lines of several threads do not mix, and a waiting script sees them at once.
    static func line(_ text: String, to descriptor: Int32) {
        let bytes = Array((text + "\n").utf8)
        _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    }
}
