import CRelease
import CommandLineOptions
import ConnectionCheck
import DecartProtocol
import Glibc
import ICE
import Network
import Signalling

struct CheckCommand: Command {
    private var baseURL: String?
    private var apiKeyFile: RawArgument?
    private var model = DecartModel.defaultName
    private var stunServer = CheckConfiguration.defaultSTUNServer
    private var turnServers: [String] = []
    private var turnServersFile: RawArgument?
    private var caFile: String?
    private var httpProxy: String?
    private var httpProxyFile: RawArgument?
    private var localAddress: String?
    private var insecure = false
    private var timeout = 3.0
    private var deep = false
    private var report: RawArgument?
    private var record: RawArgument?
    private var json = false

    private var runsSession: Bool { deep || report != nil }

    static var table: OptionTable<CheckCommand> {
        OptionTable(
            "decart-check",
            abstract: "Checks the way to Decart's realtime service: name, TCP, TLS, key, STUN and TURN.",
            discussion: discussion,
            options: [
                .value(
                    "base-url", "url", \.baseURL,
                    "URL of the service, as the element's base-url. Without it, the environment variable "
                        + "DECART_BASE_URL, else \(ServiceURL.defaultBase)."),
                .value(
                    "api-key-file", "file", \.apiKeyFile, "File that holds the API key, if DECART_API_KEY is not set."),
                .value("model", "name", \.model, "Model of a session; no custom one."),
                .value(
                    "stun-server", "url", \.stunServer,
                    "STUN server; empty: none. The default is not used if the service is on this machine."),
                .list(
                    "turn-servers", "url", \.turnServers,
                    "TURN server, turn://user:password@host:port?transport=udp|tcp or turns:// (TLS). May be given more "
                        + "than once. Other users can read the password on the command line: see "
                        + "--turn-servers-file."),
                .value("turn-servers-file", "file", \.turnServersFile, "File with TURN servers, one URL a line."),
                .value(
                    "ca-file", "file", \.caFile,
                    "PEM file with certificate authorities for the service and turns: servers."),
                .value(
                    "http-proxy", "url", \.httpProxy,
                    "HTTP proxy for everything but UDP, http://host:port, as the element's http-proxy. See "
                        + "--http-proxy-file for one with a password."),
                .value(
                    "http-proxy-file", "file", \.httpProxyFile,
                    "File with the proxy, http://user:password@host:port."),
                .value(
                    "local-address", "name", \.localAddress,
                    "Address or interface to use, as the element's local-address."),
                .flag(
                    "insecure", \.insecure,
                    "Allow an unencrypted base-url to another machine; the key travels in clear."),
                .number(
                    "timeout", "seconds", \.timeout, in: 0.1...60,
                    "Limit of each probe in seconds, from 0.1 to 60; the first frame of a session may take ten times as "
                        + "long."),
                .flag(
                    "deep", \.deep,
                    "Also run a session of 12 s with synthetic frames through the element decarttransform. It is "
                        + "billed."),
                .value(
                    "report", "file", \.report,
                    "Also run a session of 12 s (billed) and write what the service sends to this file, without "
                        + "secrets."),
                .value(
                    "record", "file", \.record,
                    "Instead of the checks: let a pipeline of yours connect through this program, and write its control "
                        + "channel to this file, without secrets, for decart-standin --replay."),
                .flag("json", \.json, "Print JSON instead of a table."),
                .page("version", "Show the version.") {
                    "decart-check \(DECART_VERSION), " + String(cString: decart_build_name()) + "\n"
                },
            ],
            // Without a session, the registry of its plugins is not read.
            others: .gstreamer(isUsed: \.runsSession))
    }

    private static let discussion = """
        All probes run at the same time, each for 3 s at most. Nothing is installed and no frame is sent without \
        --deep.

        KEY
          The environment variable DECART_API_KEY or --api-key-file names it; the command line has no option for it, \
        because other users can read a command line. For a permanent key the program requests a client token (POST \
        /v1/client/tokens), which opens no session, and discards it, and asks for the quota of sessions. A client token (ek_...) can only be checked by \
        opening the control channel and closing it at once; the program says so.

        EXIT CODE
          The first failing cause, in this order:
           0  everything that was tried works
           1  wrong arguments, or a file that cannot be read or written
           2  dns      the name of the service is not resolved
           3  tcp      the port does not accept connections
           4  tls      the certificate is not accepted, or the handshake fails
           5  service  the server answers, but not as the service does
           6  key      the key is rejected, or --deep or --report has none
           7  limit    the account has no session free or no credits, or too many requests (HTTP 402, 429, 503)
           8  udp      the STUN server does not answer over UDP
           9  turn     a TURN server does not answer or rejects the credentials
          10  session  --deep: the session failed, or no transformed frame arrived

        EXAMPLES
          decart-check
          decart-check --json --turn-servers-file turn.txt
          decart-standin & DECART_API_KEY=x decart-check --base-url ws://127.0.0.1:9001 --deep
        /usr/share/doc/gstreamer1.0-decart/docs/CHECK.md (docs/CHECK.md in the sources) describes the probes, the JSON and the report.
        """

    func validate() throws {
        guard record == nil || (report == nil && !deep && !json) else {
            throw UsageError("--record goes without --deep, --report and --json.")
        }
        guard turnServers.count <= 16 else { throw UsageError("--turn-servers: at most 16 servers.") }
        _ = try checkConfiguration()
    }

    func run() throws {
        // A closed reader of our output must not end the program without its exit code.
        signal(SIGPIPE, SIG_IGN)
        let configuration = try checkConfiguration()
        if let record { return try runRecorder(configuration, record) }
        var output = CheckOutput(
            service: "\(configuration.base)", model: configuration.model.name,
            results: ConnectionCheck(configuration).run(), secrets: configuration.secrets)
        output.notes = configuration.notes { getenv($0).map { String(cString: $0) } }
        // Opened first: a session is billed, and must not run for a report that cannot be written.
        let file = try report.map { try ReportFile($0, option: "--report") }
        let recording = report == nil ? nil : SessionRecording()
        if runsSession { runSession(configuration, recording, &output) }
        if let file, let recording {
            let report = CheckReport(output, recording.entries, secrets: configuration.secrets)
            try file.write(report.json.text + "\n")
        }
        Output.line(json ? output.json.text : output.table())
        if let cause = output.cause { throw ExitStatus(cause.rawValue) }
    }

    /// Forwards the sessions of a pipeline until a signal arrives, and then writes the recording.
    private func runRecorder(_ configuration: CheckConfiguration, _ path: RawArgument) throws {
        guard let key = configuration.key else {
            throw UsageError("--record: there is no key; set DECART_API_KEY or --api-key-file.")
        }
        // Blocked before any other thread exists, so that only `sigwait` takes them.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let file = try ReportFile(path, option: "--record")
        let recording = SessionRecording()
        let relay: RecordingRelay
        do {
            relay = try RecordingRelay(to: configuration, key: key, recording: recording)
        } catch {
            throw UsageError("--record: the relay cannot listen.")
        }
        // The key of this run: without it, other programs of this machine cannot use the relay.
        Output.line("recording: base-url=\(relay.url) api-key=\(relay.localKey.reveal())")
        var number: Int32 = 0
        _ = sigwait(&signals, &number)
        relay.close()
        let secrets = [key.reveal(), relay.localKey.reveal()]
        let control = SessionRecording.control(recording.entries, secrets: secrets)
        try file.write(try control.encoded())
    }

    /// - Parameter recording: nil: the element connects to the service itself.
    private func runSession(
        _ configuration: CheckConfiguration, _ recording: SessionRecording?, _ output: inout CheckOutput
    ) {
        let host = configuration.base.host
        guard let key = configuration.key else {
            // A failure: a CI job that has lost its key must not succeed.
            output.results.append(
                ProbeResult(.session, host, .failed(.key), nil, "Not run: there is no key. Set DECART_API_KEY."))
            return
        }
        if let cause = output.cause, cause.rawValue < Cause.udp.rawValue {
            output.results.append(.notTried(.session, host, "Not tried: \(cause.name) failed."))
            return
        }
        var session = DeepSession(baseURL: serviceURL, key: key, model: configuration.model.name)
        session.insecure = insecure
        session.caFile = caFile
        session.stunServer = stunServer
        session.firstFrameLimit = .milliseconds(Int(10_000 * timeout))
        session.httpProxy = try? proxy()
        session.localAddress = localAddress
        session.turnServers = (try? turnServers + turnServersInFile()) ?? turnServers
        do {
            let relay = try recording.map { try RecordingRelay(to: configuration, key: key, recording: $0) }
            defer { relay?.close() }
            if let relay {
                (session.baseURL, session.key) = (relay.url, relay.localKey)
                // The element uses its default server only for a service on another machine, which the relay is not.
                if let stun = configuration.stun { session.stunServer = "stun:\(stun.host.bracketed):\(stun.port)" }
            }
            let isWatched = isatty(STDERR_FILENO) == 1
            let summary = try session.run { line in
                if isWatched { Output.write("session, \(line)\n", to: STDERR_FILENO) }
            }
            output.session = summary
            output.results.append(summary.result(host))
        } catch {
            let message = (error as? DeepSession.Failure)?.message ?? "The relay of the report cannot listen."
            output.results.append(ProbeResult(.session, host, .failed(.session), nil, message))
        }
    }

    // MARK: Settings

    private func checkConfiguration() throws -> CheckConfiguration {
        do throws(ProtocolError) {
            var configuration = CheckConfiguration(
                base: try ServiceURL(base: serviceURL, allowInsecure: insecure), model: try DecartModel(named: model))
            // A custom model's frame size is not known here.
            guard configuration.model.format(for: .livekit) != nil else {
                throw ProtocolError(
                    .modelNotFound,
                    "--model: there is no model \(model); use one of "
                        + DecartModel.currentNames.joined(separator: ", ") + ".")
            }
            configuration.key = try key()
            if let key = configuration.key { try configuration.base.check(key) }
            configuration.isInsecure = insecure
            configuration.limit = .milliseconds(Int(timeout * 1000))
            if let caFile {
                configuration.trust = .only(file: caFile)
                configuration.serverTrust = .systemAnd(file: caFile)
            }
            configuration.route = try route()
            let usesStun = !(configuration.base.isLoopback && stunServer == CheckConfiguration.defaultSTUNServer)
            if !stunServer.isEmpty, usesStun { configuration.stun = try server(stunServer, "--stun-server", .stun) }
            for url in try turnServers + turnServersInFile() {
                configuration.turn.append(try server(url, "--turn-servers", .turn))
            }
            return configuration
        } catch {
            throw UsageError(error.message)
        }
    }

    private var serviceURL: String {
        if let baseURL { return baseURL }
        let named = getenv("DECART_BASE_URL").map { String(cString: $0) } ?? ""
        return named.isEmpty ? ServiceURL.defaultBase : named
    }

    private func proxy() throws(ProtocolError) -> String? {
        guard let httpProxyFile else { return httpProxy }
        return try text(of: httpProxyFile, "--http-proxy-file", maximumSize: 4096).filter { !$0.isWhitespace }
    }

    private func route() throws(ProtocolError) -> NetworkRoute {
        var route = NetworkRoute()
        route.proxy = try proxy().map { text throws(ProtocolError) in try ProxyURL(text) }
        if let localAddress {
            guard let endpoint = LocalEndpoint(localAddress) else {
                throw ProtocolError(
                    .invalidOptions, "--local-address is neither an address nor the name of an interface.")
            }
            route.source = NetworkRoute.Source(absence: endpoint.absence) { endpoint.addresses() }
        }
        return route
    }

    private func server(_ url: String, _ option: String, _ kind: ICEServer.Kind) throws(ProtocolError) -> ICEServer {
        do throws(ICEServerError) {
            let server = try ICEServer(url: url)
            guard server.kind == kind else { throw ICEServerError.unsupportedScheme }
            return server
        } catch {
            throw ProtocolError(.invalidOptions, "\(option): \(error).")
        }
    }

    /// Reads the key from the environment, else from the file; nil without both.
    private func key() throws(ProtocolError) -> APIKey? {
        if let text = getenv("DECART_API_KEY").map({ String(cString: $0) }), !text.isEmpty { return try APIKey(text) }
        guard let apiKeyFile else { return nil }
        return try APIKey(try text(of: apiKeyFile, "--api-key-file", maximumSize: 4096))
    }

    private func turnServersInFile() throws(ProtocolError) -> [String] {
        guard let turnServersFile else { return [] }
        let lines = try text(of: turnServersFile, "--turn-servers-file", maximumSize: 64 << 10)
            .split(whereSeparator: \.isNewline).map { $0.filter { !$0.isWhitespace } }
        return lines.filter { !$0.isEmpty && !$0.hasPrefix("#") }
    }

    private func text(of path: RawArgument, _ option: String, maximumSize: Int) throws(ProtocolError) -> String {
        do {
            return String(decoding: try BoundedFile.read(name: path.bytes, maximumSize: maximumSize), as: UTF8.self)
        } catch {
            throw ProtocolError(.invalidOptions, "\(option): the file \(path) cannot be read: \(error).")
        }
    }
}

@main
enum Main {
    /// The exit codes are causes, and 1 is that of wrong arguments.
    static func main() { CheckCommand.main(usageStatus: 1) }
}

/// The file of a report, readable by its owner only.
struct ReportFile {
    private let descriptor: Int32
    private let path: RawArgument
    private let option: String

    init(_ path: RawArgument, option: String) throws {
        (self.path, self.option) = (path, option)
        // The path may lead to a link, or to a file that others can read.
        descriptor = open(path.bytes, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path, option) }
        var status = stat()
        guard fstat(descriptor, &status) == 0,
            // A device keeps its mode.
            status.st_mode & S_IFMT != S_IFREG || fchmod(descriptor, 0o600) == 0 && ftruncate(descriptor, 0) == 0
        else {
            defer { close(descriptor) }
            throw Self.failure(path, option)
        }
    }

    /// Writes the text and closes the file.
    func write(_ text: String) throws {
        defer { close(descriptor) }
        guard Output.write(text, to: descriptor) else { throw Self.failure(path, option) }
    }

    private static func failure(_ path: RawArgument, _ option: String) -> UsageError {
        UsageError("\(option): the file \(path) cannot be written: \(String(cString: strerror(errno))).")
    }
}

enum Output {
    static func line(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

    /// Returns false after an error, which is in `errno`.
    @discardableResult
    static func write(_ text: String, to descriptor: Int32) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
