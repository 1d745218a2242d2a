import Dispatch
import MediaSecurity
import Synchronization
import TestSupport
import Testing

@Suite("TLS sessions", .timeLimit(.minutes(2)))
struct TLSSessionTests {
    private let authority: TestAuthority
    private let files: TestAuthority.Files

    init() throws {
        authority = try TestAuthority()
        files = try authority.issue("server", extensions: "subjectAltName=DNS:localhost")
    }

    private func pair(_ version: TLSVersion? = nil, protocols: [String] = []) throws -> TLSPair {
        try TLSPair(authority, files, protocols: protocols, maximumVersion: version)
    }

    private func client(_ host: String = "localhost", protocols: [String] = []) throws -> TLSSession {
        try TLSSession(
            client: .init(roots: .only(readFile(authority.authority.certificate)), protocols: protocols),
            serverName: host)
    }

    // MARK: Handshakes

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func facts(_ version: TLSVersion) throws {
        let pair = try pair(version, protocols: ["http/1.1"])
        #expect(pair.client.state == .handshaking && pair.client.facts == nil)
        pair.handshake()
        let facts = try #require(pair.client.facts)
        #expect(facts.version == version)
        let expiry = try #require(facts.certificateExpiry)
        let date = "$(openssl x509 -in server.pem -noout -enddate | cut -d= -f2)"
        try authority.run("test $(date -d \"\(date)\" +%s) = \(expiry)")
        #expect(pair.server.facts?.version == version)
        #expect(pair.server.facts?.certificateExpiry == nil)
    }

    @Test(arguments: [TLSVersion.tls11, .tls10])
    func oldVersions(_ version: TLSVersion) throws {
        let pair = try pair(version)
        pair.handshake()
        #expect(pair.client.error?.code == .oldVersion)
        #expect(pair.server.error?.code == .oldVersion)
    }

    @Test func serverNameAndProtocolsAreSent() throws {
        let client = try client("LocalHost.", protocols: ["http/1.1"])
        client.start()
        let hello = client.takeOutput()
        #expect(hello.contains(Array("LocalHost".utf8)) && !hello.contains(Array("LocalHost.".utf8)))
        #expect(hello.contains([8] + Array("http/1.1".utf8)))
        // RFC 6066 §3: no address.
        let address = try self.client("127.0.0.1")
        address.start()
        #expect(!address.takeOutput().contains(Array("127.0.0.1".utf8)))
    }

    @Test func impossibleNames() throws {
        for name in [
            "", ".", "..", ".example.test", "a b", "a\nb", "bücher.test", "a\0b", "[::1]",
            String(repeating: "a", count: 254), String(repeating: "a.", count: 100_000),
        ] {
            #expect(tlsError { _ = try client(name) }?.code == .setup, "\(name.prefix(20))")
        }
        for name in ["a_b.test", String(repeating: "a", count: 253), "1.2.3", "localhost"] { _ = try client(name) }
        for name in ["", String(repeating: "a", count: 256)] {
            #expect(tlsError { _ = try client(protocols: ["http/1.1", name]) }?.code == .setup)
        }
    }

    /// What a port without TLS answers, also if it is shorter than a record's header or comes unasked.
    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2p1\r\n", "220 ready\r\n", "no\n", "\0",
        "\u{17}\u{3}\u{3}",
    ])
    func notTLS(_ answer: String) throws {
        for isStarted in [true, false] {
            let client = try client()
            if isStarted { client.start() }
            client.receive(answer.utf8.prefix(1))
            #expect(client.error?.code == .notTLS)
            client.receive(answer.utf8.dropFirst())
            client.receivedEnd()
            #expect(client.error?.code == .notTLS)
        }
    }

    @Test func plainHTTPAtAServer() throws {
        let server = try pair().server
        server.receive("GET / HTTP/1.1\r\n\r\n".utf8)
        #expect(server.error?.code == .notTLS)
    }

    @Test func alertsOfAServer() throws {
        let rows: [(description: UInt8, code: TLSError.Code)] = [
            (40, .alert(40)), (70, .oldVersion), (80, .alert(80)), (112, .alert(112)), (0, .endOfHandshake),
        ]
        for row in rows {
            let client = try client()
            client.start()
            client.receive([21, 3, 3, 0, 2, row.description == 0 ? 1 : 2, row.description])
            #expect(client.error?.code == row.code, "\(row)")
        }
    }

    /// A server of TLS 1.2 whose Certificate message is empty.
    @Test func noCertificate() throws {
        let client = try client()
        client.start()
        // ECDHE-ECDSA-AES128-GCM-SHA256, and renegotiation_info.
        let body = [3, 3] + [UInt8](repeating: 7, count: 32) + [0, 0xc0, 0x2b, 0, 0, 5, 0xff, 1, 0, 1, 0]
        let hello = [2, 0, 0, UInt8(body.count)] + body
        client.receive([22, 3, 3, 0, UInt8(hello.count)] + hello + [22, 3, 3, 0, 7, 11, 0, 0, 3, 0, 0, 0])
        #expect(client.error?.code == .noPeerCertificate, "\(client.state)")
    }

    @Test func endDuringTheHandshake() throws {
        let pair = try pair()
        pair.client.start()
        pair.client.receivedEnd()
        pair.server.receive(pair.client.takeOutput().dropLast())
        pair.server.receivedEnd()
        #expect(pair.client.error?.code == .endOfHandshake)
        #expect(pair.server.error?.code == .endOfHandshake)
    }

    /// Handshake messages without an end, one byte in each record: of a length that is too large, and of one that is not.
    @Test(arguments: [[2, 1, 0, 0], [11, 0, 0xff, 0xff], [11, 0xff, 0xff, 0xff]] as [[UInt8]])
    func floodDuringTheHandshake(_ header: [UInt8]) throws {
        let client = try client()
        client.start()
        client.receive([22, 3, 3, 0, 4] + header)
        var received = 0
        while case .handshaking = client.state, received < 1 << 20 {
            client.receive([22, 3, 3, 0, 1, 7])
            received += 6
        }
        #expect(client.error != nil)
        #expect(received <= 256 * 1_024 + 6)
    }

    @Test func emptyRecordsDoNotLast() throws {
        let client = try client()
        client.start()
        for _ in 0..<1_000 { client.receive([22, 3, 3, 0, 0]) }
        #expect(client.error != nil)
    }

    /// Connections of several threads share a context.
    @Test func sharedContexts() throws {
        let (client, server) = try contexts()
        let opened = Atomic(0)
        DispatchQueue.concurrentPerform(iterations: 64) { _ in
            guard let pair = try? TLSPair(client: client, server: server) else { return }
            pair.handshake()
            if pair.client.state == .open { opened.add(1, ordering: .relaxed) }
        }
        #expect(opened.load(ordering: .relaxed) == 64)
    }

    // MARK: Data

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func byteByByte(_ version: TLSVersion) throws {
        let pair = try pair(version)
        pair.client.start()
        pair.run { 1 }
        #expect(pair.client.state == .open && pair.server.state == .open)
        let data = Array("hello".utf8)
        #expect(pair.client.write(data) == 5 && pair.server.write(data) == 5)
        pair.run { 1 }
        #expect(pair.atServer == data && pair.atClient == data)
    }

    /// 10 MiB each way, written and delivered in pieces of all sizes.
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func muchData(_ version: TLSVersion) throws {
        var generator = SeededGenerator(seed: 7)
        let pair = try pair(version)
        pair.handshake()
        let pattern = generator.bytes(1 << 20)
        let data = (0..<10).flatMap { _ in pattern }
        var (toServer, toClient) = (data[...], data[...])
        func piece() -> Int { generator.below([4, 100, 2_000, 17_000, 70_000][generator.below(5)]) + 1 }
        while !toServer.isEmpty || !toClient.isEmpty {
            let taken = pair.client.write(toServer.prefix(piece()))
            #expect(taken > 0 || toServer.isEmpty)
            #expect(taken <= TLSSession.maximumRecord)
            toServer = toServer.dropFirst(taken)
            toClient = toClient.dropFirst(pair.server.write(toClient.prefix(piece())))
            if generator.below(4) == 0 { pair.run(pieces: piece) }
        }
        pair.run()
        #expect(pair.atServer == data)
        #expect(pair.atClient == data)
    }

    @Test func noDataBeforeTheHandshakeAndAfterTheEnd() throws {
        let pair = try pair()
        #expect(pair.client.write([1]) == 0)
        pair.client.start()
        #expect(pair.client.write([1]) == 0)
        #expect(pair.client.read() == nil)
        pair.run()
        #expect(pair.client.write([]) == 0)
        pair.client.close()
        #expect(pair.client.write([1]) == 0)
        #expect(pair.client.state == .open)
        pair.run()
        #expect(pair.server.state == .closed)
        #expect(pair.server.write([1]) == 0)
        pair.server.close()
        pair.run()
        #expect(pair.client.state == .closed)
        #expect(pair.atServer.isEmpty && pair.atClient.isEmpty)
    }

    // MARK: Ends

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func closeNotifyIsAnEndAndItsAbsenceATruncation(_ version: TLSVersion) throws {
        for closes in [true, false] {
            let pair = try pair(version)
            pair.handshake()
            #expect(pair.server.write([1, 2, 3]) == 3)
            if closes { pair.server.close() }
            pair.client.receive(pair.server.takeOutput())
            pair.client.receivedEnd()
            // What came before the end can be read.
            #expect(pair.client.state == .open)
            #expect(pair.client.read() == [1, 2, 3])
            #expect(pair.client.read() == nil)
            #expect(pair.client.state == (closes ? .closed : .failed(TLSError(.truncated))))
        }
    }

    @Test func endInsideARecord() throws {
        let pair = try pair()
        pair.handshake()
        #expect(pair.server.write([1, 2, 3]) == 3)
        pair.client.receive(pair.server.takeOutput().dropLast())
        pair.client.receivedEnd()
        #expect(pair.client.error?.code == .truncated)
        #expect(pair.client.read() == nil)
    }

    @Test func endAfterCloseNotify() throws {
        let pair = try pair()
        pair.handshake()
        pair.server.close()
        pair.client.receive(pair.server.takeOutput())
        #expect(pair.client.read() == nil)
        pair.client.receivedEnd()
        #expect(pair.client.state == .closed)
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func damagedRecord(_ version: TLSVersion) throws {
        let pair = try pair(version)
        pair.handshake()
        #expect(pair.server.write([1, 2, 3]) == 3)
        var record = pair.server.takeOutput()
        record[record.count - 1] ^= 1
        pair.client.receive(record)
        #expect(pair.client.read() == nil)
        #expect(pair.client.error?.code == .protocolError)
        // The alert tells the peer.
        pair.run()
        #expect(pair.server.error?.code == .alert(20))
    }

    // MARK: Hostile peers

    private func contexts(_ version: TLSVersion? = nil) throws -> (TLSClientContext, TLSServerContext) {
        (
            try .init(roots: .only(readFile(authority.authority.certificate)), protocols: []),
            try .init(certificateChainFile: files.certificate, privateKeyFile: files.key, maximumVersion: version)
        )
    }

    /// Handshakes with single bytes changed, truncated or repeated end somehow.
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func mutatedHandshakes(_ version: TLSVersion) throws {
        var generator = SeededGenerator(seed: 5)
        var opened = 0
        let (client, server) = try contexts(version)
        for _ in 0..<300 {
            let pair = try TLSPair(client: client, server: server)
            pair.client.start()
            for _ in 0..<4 {
                for (from, to) in [(pair.client, pair.server), (pair.server, pair.client)] {
                    var bytes = from.takeOutput()
                    if !bytes.isEmpty, generator.below(3) == 0 {
                        bytes[generator.below(bytes.count)] ^= UInt8(1 << generator.below(8))
                    }
                    if generator.below(8) == 0 { bytes.removeLast(generator.below(bytes.count)) }
                    if generator.below(8) == 0 { bytes += bytes }
                    to.receive(bytes)
                    while to.read() != nil {}
                }
            }
            if pair.client.state == .open { opened += 1 }
            pair.client.receivedEnd()
            #expect(pair.client.error != nil || pair.client.state == .closed)
        }
        #expect(opened > 0)
    }

    @Test func garbage() throws {
        var generator = SeededGenerator(seed: 6)
        let (client, server) = try contexts()
        for round in 0..<100 {
            let pair = try TLSPair(client: client, server: server)
            if round % 2 == 0 { pair.handshake() } else { pair.client.start() }
            for end in [pair.client, pair.server] {
                for _ in 0..<20 {
                    var bytes = generator.bytes(generator.below(600))
                    if bytes.count > 5, generator.below(4) > 0 {
                        let length = bytes.count - 5
                        let type = UInt8(20 + generator.below(4))
                        bytes.replaceSubrange(0..<5, with: [type, 3, 3, UInt8(length >> 8), UInt8(length & 255)])
                    }
                    end.receive(bytes)
                    while end.read() != nil {}
                    _ = end.write(bytes)
                    _ = end.takeOutput()
                }
                end.close()
                end.receivedEnd()
                #expect(end.error != nil || end.state == .closed)
            }
        }
    }
}

extension [UInt8] {
    fileprivate func contains(_ part: [UInt8]) -> Bool {
        indices.contains { self[$0...].starts(with: part) }
    }
}
