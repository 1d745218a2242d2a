import ConnectionCheck
import DecartProtocol
import ICE
import Signalling
import StandInServer
import TestSupport
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct ConnectionCheckTests {
    private static let key = "permanent-key-of-this-test"

    // MARK: Verdicts

    private func result(_ kind: ProbeKind, _ outcome: ProbeResult.Outcome) -> ProbeResult {
        ProbeResult(kind, "", outcome, .milliseconds(1), "")
    }

    @Test func theFirstCauseInTheOrderOfTheStackDecides() {
        let results = [
            result(.dns, .ok), result(.tcp, .ok), result(.tls, .ok), result(.key, .failed(.limit)),
            result(.stun, .failed(.udp)), result(.turn, .failed(.turn)),
        ]
        #expect(results.withoutConsequences() == results && results.cause == .limit)
        #expect([result(.turn, .failed(.turn)), result(.stun, .failed(.udp))].cause == .udp)
        #expect([result(.dns, .ok), result(.turn, .notTried)].cause == nil)
        #expect(Cause.allCases.map(\.rawValue) == Array(2...10))
    }

    @Test func consequencesAreNoFailures() {
        let results = [
            result(.dns, .ok), result(.tcp, .failed(.tcp)), result(.tls, .failed(.tcp)),
            result(.key, .failed(.service)),
            result(.stun, .failed(.udp)),
        ].withoutConsequences()
        #expect(results.map(\.outcome) == [.ok, .failed(.tcp), .notTried, .notTried, .failed(.udp)])
        #expect(results[2].message == "Not tried: the TCP connection failed.")
    }

    // MARK: The stand-in

    private func check(
        _ standIn: StandInConfiguration = StandInConfiguration(), key: String? = key, query: String = "",
        change: (inout CheckConfiguration) throws -> Void = { _ in }
    ) throws -> [ProbeResult] {
        var standIn = standIn
        standIn.port = 0
        let server = StandInServer(configuration: standIn)
        let port = try server.start()
        defer { server.stop() }
        var configuration = CheckConfiguration(
            base: try ServiceURL(base: "ws://localhost:\(port)/\(query)"), model: try DecartModel(named: "lucy-latest"))
        configuration.key = try key.map { try APIKey($0) }
        try change(&configuration)
        return ConnectionCheck(configuration).run()
    }

    private func outcome(_ kind: ProbeKind, _ results: [ProbeResult]) -> ProbeResult.Outcome? {
        results.first { $0.kind == kind }?.outcome
    }

    @Test func aPermanentKeyIsAccepted() throws {
        var standIn = StandInConfiguration()
        standIn.keys = KeyPolicy(accepted: [Self.key])
        let results = try check(standIn)
        #expect(results.cause == nil)
        #expect(results.map(\.kind) == [.dns, .tcp, .tls, .key, .stun, .turn])
        #expect([ProbeKind.dns, .tcp, .key].allSatisfy { outcome($0, results) == .ok })
        #expect([ProbeKind.tls, .stun, .turn].allSatisfy { outcome($0, results) == .notTried })
        // The POST opens no session.
        try #expect(check(standIn, key: "another-key-of-this-test").cause == .key)
    }

    @Test(arguments: [
        ("http_401", Cause.key), ("http_403", .key), ("http_429", .limit), ("http_503", .limit), ("http_500", .service),
        ("http_402", .limit), ("http_422", .service), ("http_404", .service), ("http_302", .service),
        ("http_200html", .service), ("http_511", .service),
    ])
    func answersAreToldApart(fault: String, cause: Cause) throws {
        try #expect(check(query: "?fault=\(fault)").cause == cause)
        // A client token goes by the control channel.
        try #expect(check(key: "ek_of-this-test", query: "?fault=\(fault)").cause == cause)
    }

    @Test(arguments: [
        ("close_1013_at_join", Cause.limit), ("error_permanent", .key), ("error_transient", .service),
        ("close_1011_at_join", .service), ("error_type:type=insufficient_credits", .limit),
        ("error_type:type=upstream_capacity", .limit), ("error_type:type=origin_not_allowed", .key),
    ])
    func theChannelsFirstMessageCounts(fault: String, cause: Cause) throws {
        try #expect(check(key: "ek_of-this-test", query: "?fault=\(fault)").cause == cause)
    }

    @Test func aClientTokenOpensASession() throws {
        let results = try check(key: "ek_of-this-test")
        let key = try #require(results.first { $0.kind == .key })
        #expect(key.outcome == .ok && key.message.contains("opened a session"))
    }

    @Test(
        arguments: [
            (nil, Cause?.none, #""quota": {"#, "no limit"),
            (2, nil, #""remaining": 2"#, "0 of the account's 2 sessions"),
            (0, .limit, #""remaining": 0"#, "end another one"),
        ] as [(Int?, Cause?, String, String)])
    func theQuotaIsShown(limit: Int?, cause: Cause?, json: String, excerpt: String) throws {
        var standIn = StandInConfiguration()
        standIn.sessionLimit = limit
        let results = try check(standIn)
        #expect(results.cause == cause)
        let output = CheckOutput(service: "s", model: "m", results: results)
        #expect(output.json.text.contains(json) && output.json.text.contains(excerpt), "\(output.json.text)")
    }

    @Test func withoutAKeyNothingIsSent() throws {
        let results = try check(key: nil)
        #expect(outcome(.key, results) == .notTried && results.cause == nil)
        let table = CheckOutput(service: "s", model: "m", results: results).table(width: 500)
        #expect(
            table.hasSuffix(
                "works. Not tried: TLS, key, STUN, TURN. Without the key nothing shows that this is the service."),
            "\(table)")
        let all = CheckOutput(service: "s", model: "m", results: [result(.dns, .ok)]).table()
        #expect(all.hasSuffix("\nEverything that was tried works."))
    }

    @Test func aProxyThatIsNotUsedIsNamed() throws {
        func notes(
            _ environment: [String: String], _ base: String = "wss://host", model: String = "lucy-latest",
            change: (inout CheckConfiguration) throws -> Void = { _ in }
        ) throws -> String {
            var configuration = CheckConfiguration(
                base: try ServiceURL(base: base), model: try DecartModel(named: model))
            try change(&configuration)
            return configuration.notes { environment[$0] }.joined(separator: "; ")
        }
        let proxy = ["https_proxy": "http://user:secret@proxy:3128", "ALL_PROXY": "socks5://x", "http_proxy": ""]
        let text = try notes(proxy)
        #expect(text.contains("has https_proxy, ALL_PROXY, which") && !text.contains("secret"))
        #expect(try notes(proxy) { $0.route.proxy = try ProxyURL("http://proxy:3128") }.isEmpty)
        #expect(try notes(proxy, "ws://127.0.0.1:9001").isEmpty)
        #expect(try notes(["PATH": "/bin"]).isEmpty)
        #expect(try notes([:], model: "mirage_v2").contains("retired: use lucy-restyle-2"))
    }

    @Test(arguments: ["", "?fault=http_401", "?fault=error_permanent"]) func noTextHasTheKey(query: String) throws {
        let output = CheckOutput(
            service: "s", model: "m", results: try check(key: "ek_secret-of-this-test", query: query))
        #expect(!(output.table() + output.json.text).contains("secret-of-this-test"))
    }

    // MARK: STUN and TURN

    @Test(.enabled(if: TurnServer.isInstalled)) func relays() throws {
        let server = try TurnServer(tls: "DNS:localhost")
        func run(_ servers: [ICEServer]) throws -> [ProbeResult] {
            try check { configuration in
                configuration.stun = try ICEServer(url: "stun:127.0.0.1:\(server.port)")
                configuration.turn = servers
                configuration.serverTrust = .systemAnd(file: server.authority)
            }
        }
        let good = try [server.server("udp"), server.server("tcp"), server.tlsServer(host: "localhost")]
        try #expect(run(good).suffix(4).map(\.outcome) == [.ok, .ok, .ok, .ok])
        let bad = try ["udp", "tcp"].map {
            try ICEServer(url: "turn:127.0.0.1:\(server.port)?transport=\($0)", username: "test", credential: "wrong")
        }
        let results = try run(bad + [server.tlsServer(host: "127.0.0.1")])
        #expect(results.suffix(4).map(\.outcome) == [.ok, .failed(.turn), .failed(.turn), .failed(.turn)])
        #expect(
            results.suffix(3).prefix(2).allSatisfy { $0.message.contains("rejected the user name or the password") })
        #expect(results.last?.message.contains("host name") == true, "\(results)")
        server.freeze()
        let silent = try check { configuration in
            configuration.turn = [try server.server("udp")]
            configuration.limit = .milliseconds(700)
        }
        #expect(silent.last?.message.contains("did not answer over UDP in time") == true, "\(silent)")
    }
}
