import ArgumentParser
import CRelease
import DecartProtocol
import Glibc
import ICE
import StandInServer

@main
struct StandInCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decart-standin",
        abstract: "A stand-in for Decart's realtime service, to try pipelines with and to test against.",
        discussion: """
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
            """,
        version: "decart-standin \(DECART_VERSION), " + String(cString: decart_build_name()))

    @Option(help: ArgumentHelp("TCP port to listen on; 0 takes any free one.", valueName: "number"))
    var port = StandInConfiguration.defaultPort

    @Option(
        help: ArgumentHelp(
            "Address to listen on. Without it, both loopback addresses: 127.0.0.1 and ::1.", valueName: "address"))
    var host: String?

    @Option(help: ArgumentHelp("Accept this key and no other. May be given more than once.", valueName: "key"))
    var apiKey: [String] = []

    @Option(help: ArgumentHelp("Answer this key with HTTP 401. May be given more than once.", valueName: "key"))
    var rejectKey: [String] = []

    @OptionGroup var tls: TLSArguments

    @Option(help: ArgumentHelp("Sessions at the same time; further ones get HTTP 503.", valueName: "number"))
    var maxSessions = StandInConfiguration().maximumSessionCount

    @Option(
        help: ArgumentHelp(
            "Sessions that the account permits at the same time; further ones get --limit-answer.",
            valueName: "number"))
    var limit: Int?

    @Option(
        help: ArgumentHelp(
            "error (\"Concurrent session limit reached\", then close 1013), close (1013 alone) or http (429).",
            valueName: "answer"))
    var limitAnswer = StandInConfiguration().limitAnswer.rawValue

    @Option(
        help: ArgumentHelp(
            "Seconds after which sessions end whose client token requested no maxSessionDuration.",
            valueName: "seconds"))
    var maxSessionDuration: Int?

    @Option(help: ArgumentHelp("Bitrate of the returned video, in bit/s.", valueName: "number"))
    var bitrate = MediaOptions().bitrate

    @Flag(
        help: ArgumentHelp(
            "Return each encoded frame (H.264 of any profile, VP8) as it came: nothing is decoded or transformed."))
    var echoEncoded = false

    @Option(help: ArgumentHelp("Delay of the model before video and audio are returned, in ms.", valueName: "number"))
    var delay = 0

    @Option(
        help: ArgumentHelp(
            "How the output comes back after two seconds without frames, which end the generation: one of the values of output= in generation_restart.",
            valueName: "output"))
    var idleOutput = StandInConfiguration().idleOutput

    @Option(
        help: ArgumentHelp(
            "UDP ports of media, such as 40000-40049. Without it, any. A session uses one or two on each address.",
            valueName: "first-last"))
    var rtpPorts: String?

    @Flag(help: "Offer passive TCP candidates as well, at ports as of --rtp-ports.")
    var iceTcp = false

    @Option(help: ArgumentHelp("A fault; see FAULTS. May be given more than once.", valueName: "spec"))
    var fault: [String] = []

    @Option(
        help: ArgumentHelp(
            "Send the messages of this recording of decart-check --record; media are as usual (REPLAY.md).",
            valueName: "file"))
    var replay: String?

    @Option(help: ArgumentHelp("Port of the control endpoint; 0 takes any free one.", valueName: "number"))
    var control: Int?

    @Option(
        help: ArgumentHelp(
            "Transport of media: webrtc (a direct connection), livekit (a room), or both; then the client's first message decides.",
            valueName: "way"))
    var transport = "both"

    @Flag(
        help: ArgumentHelp(
            "Send the candidates of a direct connection as messages after the answer (trickle ICE). "
                + "Without it the answer holds them all, as the service's did."))
    var trickle = false

    @Flag(
        help: ArgumentHelp(
            "Take connections from web pages of any origin, and by any host name. "
                + "Without it only pages of this machine may connect."))
    var allowBrowser = false

    @Flag(
        help: ArgumentHelp(
            "Refuse messages, fields, query items and models that no SDK of Decart sends: an error that names the "
                + "first of them, then close 1008."))
    var strict = false

    @OptionGroup var rooms: RoomArguments

    @Flag(help: "Serve a page for browsers of this machine on the control port (9002 without --control).")
    var web = false

    @Flag(help: "The control endpoint shows the texts of prompts; without it they are only counted.")
    var showPrompts = false

    @Flag(name: .shortAndLong, help: "Print nothing but the lines that say where it listens.")
    var quiet = false

    func validate() throws {
        try check(port, 0...65535, "--port is a number from 0 to 65535.")
        try check(maxSessions, 1...1024, "--max-sessions is a number from 1 to 1024.")
        try check(limit, 1...1024, "--limit is a number from 1 to 1024.")
        guard LimitAnswer(rawValue: limitAnswer) != nil else {
            throw ValidationError("--limit-answer is error, close or http.")
        }
        try check(maxSessionDuration, 1...1_000_000_000, "--max-session-duration is a positive number of seconds.")
        try check(bitrate, 50_000...100_000_000, "--bitrate is a number of bits per second from 50000 to 100000000.")
        try check(delay, 0...10_000, "--delay is a number of milliseconds up to 10000.")
        try check(control, 0...65535, "--control is a number from 0 to 65535.")
        guard transports != nil else { throw ValidationError("--transport is webrtc, livekit or both.") }
        guard replay == nil || fault.isEmpty else {
            throw ValidationError("--replay goes without --fault.")
        }
        // The rest is checked where it is parsed.
        _ = try serverConfiguration()
    }

    private func check(_ value: Int?, _ range: ClosedRange<Int>, _ text: String) throws {
        if let value, !range.contains(value) { throw ValidationError(text) }
    }

    private func parsedPorts() throws -> ClosedRange<UInt16>? {
        guard let rtpPorts else { return nil }
        let ports = rtpPorts.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
        guard ports.count == 2, let first = ports[0], let last = ports[1], first > 0, first <= last else {
            throw ValidationError("--rtp-ports is the first and the last port, such as 40000-40049.")
        }
        return first...last
    }

    /// Names the option in an error.
    private func parsing<Value>(_ option: String, _ body: () throws -> Value) throws -> Value {
        do { return try body() } catch { throw ValidationError("\(option): \(error)") }
    }

    private var transports: Set<MediaTransportKind>? {
        transport == "both" ? Set(MediaTransportKind.allCases) : MediaTransportKind(rawValue: transport).map { [$0] }
    }

    private func recording() throws -> ControlRecording? {
        guard let replay else { return nil }
        let bytes: [UInt8]
        do throws(BoundedFileError) {
            bytes = try BoundedFile.read(path: replay, maximumSize: ControlRecording.maximumSize)
        } catch {
            throw ValidationError("--replay: the file \(replay) cannot be read (\(error)).")
        }
        do throws(ControlRecordingError) {
            return try ControlRecording(parsing: bytes)
        } catch {
            throw ValidationError("--replay: \(replay), \(error)")
        }
    }

    func run() throws {
        // Catch signals first, so that one during the start is not lost.
        let signals = TerminationSignals()
        let server = StandInServer(configuration: try serverConfiguration())
        let port = try server.start()
        let scheme = tls.isUnset ? "ws" : "wss"
        Console.line("listening on \(scheme)://\(printedHost):\(port)", to: STDOUT_FILENO)
        if let port = server.controlPort {
            Console.line("control on http://127.0.0.1:\(port)", to: STDOUT_FILENO)
            if web { Console.line("page on http://127.0.0.1:\(port)/", to: STDOUT_FILENO) }
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
        configuration.limitAnswer = LimitAnswer(rawValue: limitAnswer) ?? .error
        configuration.maximumSessionDuration = maxSessionDuration
        configuration.media.bitrate = bitrate
        if let certificate = tls.tlsCert, let key = tls.tlsKey {
            configuration.tls = .init(certificateChain: certificate, privateKey: key)
        }
        configuration.throwawayAuthority = tls.tlsCa
        configuration.media.echoesEncoded = echoEncoded
        configuration.media.delay = .milliseconds(delay)
        configuration.idleOutput = idleOutput
        configuration.transports = transports ?? []
        configuration.tricklesCandidates = trickle
        configuration.allowsBrowsers = allowBrowser
        configuration.isStrict = strict
        configuration.rooms.ice.forcesRelay = rooms.forceRelay
        configuration.rooms.ice.servers = try rooms.iceServer.map { url in
            try parsing("--ice-server") { try ICEServer(url: url) }
        }
        configuration.media.network.ports = try parsedPorts()
        configuration.media.network.listensForTCP = iceTcp
        configuration.rooms.servesSingleConnections = !rooms.noSingleConnection
        configuration.rooms.carriesTrailers = !rooms.noPacketTrailers
        configuration.rooms.codec = rooms.serverCodec
        configuration.faults = try parsing("--fault") { try FaultPlan(parsing: fault).faults }
        configuration.controlPort = control ?? (web ? 9002 : nil)
        configuration.servesPage = web
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

struct TLSArguments: ParsableArguments {
    @Option(help: ArgumentHelp("Certificate chain, PEM; with --tls-key the service is wss://.", valueName: "file"))
    var tlsCert: String?

    @Option(help: ArgumentHelp("Private key of the certificate, PEM.", valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "Be wss:// with a certificate of a throwaway authority, whose own is written to this file.",
            valueName: "file"))
    var tlsCa: String?

    var isUnset: Bool { tlsCert == nil && tlsCa == nil }

    func validate() throws {
        guard (tlsCert == nil) == (tlsKey == nil) else {
            throw ValidationError("--tls-cert and --tls-key belong together.")
        }
        guard tlsCa == nil || tlsCert == nil else {
            throw ValidationError("--tls-ca has a certificate of its own: it goes without --tls-cert.")
        }
    }
}

struct RoomArguments: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A STUN or TURN server that rooms name to who joins, as decarttransform's turn-servers has it: "
                + "turn://user:password@host:3478?transport=udp. May be given more than once.", valueName: "url"))
    var iceServer: [String] = []

    @Flag(help: "Rooms let their participants use relays only.")
    var forceRelay = false

    @Flag(help: "Rooms know two connections only: /rtc/v1 is answered with HTTP 404.")
    var noSingleConnection = false

    @Option(
        help: ArgumentHelp(
            "Codec of the video that rooms return: query (that of livekit_server_codec, else H.264), client (that of the "
                + "client's video, as on a single connection), h264, vp8 or vp9.", valueName: "codec"))
    var serverCodec = RoomOptions().codec

    @Flag(help: "Rooms carry no trailers of frames (LiveKit's frame metadata).")
    var noPacketTrailers = false
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

extension Fault.Output: ExpressibleByArgument {}
extension ServerCodec: ExpressibleByArgument {}

enum Console {
    /// One unbuffered write per line: lines of several threads do not mix, and a waiting script sees them at once.
    static func line(_ text: String, to descriptor: Int32) {
        let bytes = Array((text + "\n").utf8)
        _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    }
}
