import MediaSecurity
import Testing
import TestSupport

/// No datagram of a peer may trap, hang or let memory grow.
@Suite(.timeLimit(.minutes(2)))
struct HostileDatagramTests {
    enum Phase: CaseIterable { case idle, started, halfway, unverified, established, closed }

    /// Returns a pair walked to `phase`, with reused certificates, because generating them is slow.
    static func pair(in phase: Phase, _ certificates: (DTLSCertificate, DTLSCertificate)) throws -> DTLSPair {
        let pair = try DTLSPair(
            client: certificates.0, server: certificates.1, fingerprints: phase != .unverified)
        switch phase {
        case .idle: break
        case .started: pair.start()
        case .halfway:
            pair.start()
            _ = pair.step()
        case .unverified, .established:
            pair.handshake()
        case .closed:
            pair.handshake()
            pair.client.close()
            pair.server.close()
        }
        return pair
    }

    /// Tests every length with every first byte that the demux accepts for DTLS, and with others.
    @Test(arguments: Phase.allCases)
    func lengthSweep(phase: Phase) throws {
        let certificates = (try DTLSCertificate.generate(), try DTLSCertificate.generate())
        var generator = SeededGenerator(seed: 42)
        var received = 0
        let firstBytes: [UInt8] = [0, 1, 20, 21, 22, 23, 24, 63, 64, 127, 128, 191, 255]
        let noise = (0..<8_192).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        var pair = try Self.pair(in: phase, certificates)
        for length in 0...1_500 {
            for first in firstBytes {
                var datagram = Array(noise[Int(generator.next() % 6_000)...].prefix(length))
                if length > 0 { datagram[0] = first }
                // Every other datagram looks like a record; otherwise all of them fail at the first check.
                if length >= 13, length % 2 == 0 { Self.dress(&datagram, epoch: UInt8(length / 2 % 2)) }
                pair.deliver(datagram, toClient: length % 3 == 0)
            }
            _ = pair.take(fromClient: true)
            _ = pair.take(fromClient: false)
            if length % 100 == 99 {
                received += pair.server.counters.datagramsReceived + pair.client.counters.datagramsReceived
                pair = try Self.pair(in: phase, certificates)
            }
        }
        #expect(received >= 1_500 * firstBytes.count)
    }

    /// Real datagrams with single bytes changed, truncated at every length.
    @Test
    func mutatedHandshakes() throws {
        let certificates = (try DTLSCertificate.generate(), try DTLSCertificate.generate())
        var generator = SeededGenerator(seed: 4)
        var established = 0
        for round in 0..<400 {
            let pair = try DTLSPair(client: certificates.0, server: certificates.1)
            pair.start()
            for _ in 0..<12 {
                for fromClient in [true, false] {
                    for datagram in pair.take(fromClient: fromClient) {
                        var damaged = datagram
                        if Int.random(in: 0..<3, using: &generator) == 0 {
                            let index = Int.random(in: 0..<damaged.count, using: &generator)
                            damaged[index] ^= UInt8.random(in: 1...255, using: &generator)
                        }
                        if Int.random(in: 0..<4, using: &generator) == 0 {
                            damaged.removeLast(Int.random(in: 0..<damaged.count, using: &generator))
                        }
                        pair.deliver(damaged, toClient: !fromClient)
                        if round % 2 == 0 { pair.deliver(datagram, toClient: !fromClient) }
                    }
                }
            }
            if pair.isEstablished {
                established += 1
                #expect(try #require(pair.clientKeys).mirrors(#require(pair.serverKeys)))
            }
        }
        #expect(established > 0)
    }

    @Test
    func garbageDoesNotDisturbAHandshake() throws {
        let pair = try DTLSPair()
        pair.start()
        let future = Self.record(type: 22, epoch: 2, length: 100)
        let shortProtected = Self.record(type: 23, epoch: 1, length: 1)
        let emptyFragment = Self.record(type: 22, epoch: 0, body: [11, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        for datagram in pair.take(fromClient: true) {
            for _ in 0..<10_000 {
                for junk in [future, shortProtected, emptyFragment, [22], []] {
                    pair.deliver(junk, toClient: false)
                    pair.deliver(junk, toClient: true)
                }
            }
            pair.deliver(datagram, toClient: false)
        }
        pair.run()
        #expect(pair.isEstablished, "\(pair.clientError as Any) \(pair.serverError as Any)")
        #expect(pair.server.counters.datagramsDropped == 50_000)
    }

    /// A handshake that never ends fails.
    @Test
    func endlessHandshakeIsGivenUp() throws {
        let pair = try DTLSPair()
        pair.start()
        var datagrams = 0
        while !pair.hasFailed, datagrams < 100_000 {
            datagrams += 1
            let sequence = UInt8(datagrams % 60)
            pair.deliver(
                Self.record(type: 22, epoch: 0, body: [11, 0, 4, 0, 0, sequence, 0, 0, 0, 0, 0, 1, 7]), toClient: false)
        }
        #expect(pair.serverError?.code == .limitExceeded || pair.serverError?.code == .handshake)
        #expect(datagrams <= 2_001)
    }

    /// A few datagrams of UDP's maximum size: the limit is 256 KiB, and below it the handshake continues.
    @Test(arguments: [4, 5])
    func handshakesAreBoundedInBytesToo(datagrams: Int) throws {
        let pair = try DTLSPair()
        pair.start()
        let large = (0..<4).flatMap { _ in Self.record(type: 23, epoch: 1, length: 16_000) }
        for number in 1...datagrams {
            #expect(pair.serverError == nil, "before datagram \(number)")
            pair.deliver(large, toClient: false)
        }
        pair.run()
        if datagrams == 4 {
            #expect(pair.isEstablished, "\(pair.clientError as Any) \(pair.serverError as Any)")
        } else {
            #expect(pair.serverError?.code == .limitExceeded)
        }
    }

    /// Random datagrams in each phase: `scripts/verify` sends 100,000, with which memory must not grow.
    @Test(arguments: [Phase.started, .halfway, .established])
    func floodKeepsMemoryBounded(phase: Phase) throws {
        let certificates = (try DTLSCertificate.generate(), try DTLSCertificate.generate())
        let pair = try Self.pair(in: phase, certificates)
        var generator = SeededGenerator(seed: 9)
        let kinds = (0..<64).map { kind in
            var datagram = (0..<Int.random(in: 13...1_200, using: &generator)).map { _ in
                UInt8(truncatingIfNeeded: generator.next())
            }
            datagram[0] = UInt8(20 + kind % 4)
            if kind % 4 != 0 { Self.dress(&datagram, epoch: UInt8(kind % 3)) }
            return datagram
        }
        for kind in kinds { pair.deliver(kind, toClient: false) }
        let before = ResidentMemory.bytes()
        for number in 0..<(Verification.isOn ? 100_000 : 10_000) {
            pair.deliver(kinds[number % kinds.count], toClient: false)
            if number % 64 == 0 { _ = pair.take(fromClient: false) }
        }
        // Other tests run concurrently, hence the margin; 100,000 kept datagrams would amount to 60 MB.
        measure(
            "growth with datagrams to a peer that is \(phase)", Double(ResidentMemory.bytes() - before) / 1_048_576,
            atMost: 32, unit: "MiB")
        // However many came, what waits to be sent is bounded.
        #expect(pair.take(fromClient: false).count <= 64)
        if phase == .established { #expect(!pair.hasFailed) }
    }

    /// Tests an owner that does not drain the outgoing datagrams.
    @Test
    func outgoingIsBounded() throws {
        let pair = try DTLSPair()
        pair.start()
        let hello = try #require(pair.take(fromClient: true).first)
        for _ in 0..<500 { pair.deliver(hello, toClient: false) }
        #expect(pair.take(fromClient: false).count <= 64)
    }

    static func record(type: UInt8, epoch: UInt8, length: Int) -> [UInt8] {
        record(type: type, epoch: epoch, body: [UInt8](repeating: 0x5A, count: length))
    }

    static func record(type: UInt8, epoch: UInt8, body: [UInt8]) -> [UInt8] {
        [type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 9, UInt8(body.count >> 8), UInt8(body.count & 255)] + body
    }

    /// Writes a plausible record header over a datagram's first bytes.
    static func dress(_ datagram: inout [UInt8], epoch: UInt8) {
        let length = datagram.count - 13
        datagram.replaceSubrange(
            1..<5, with: [0xfe, 0xfd, 0, epoch])
        datagram[11] = UInt8(length >> 8)
        datagram[12] = UInt8(length & 255)
        if datagram[0] == 22, epoch == 0, length >= 12 {
            let body = length - 12
            let size = [0, UInt8(body >> 8), UInt8(body & 255)]
            datagram.replaceSubrange(14..<17, with: size)
            datagram.replaceSubrange(17..<19, with: [0, datagram[17] % 8])
            datagram.replaceSubrange(19..<22, with: [0, 0, 0])
            datagram.replaceSubrange(22..<25, with: size)
        }
    }
}
