import MediaSecurity
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(1)))
struct LossyHandshakeTests {
    /// Seeded loss, duplication and reordering. OpenSSL fails after 12 unanswered flights, which can happen at 50 %
    /// loss; then the connection must report it.
    @Test(arguments: [0, 10, 20, 50])
    func handshakeUnder(lossPercent: Int) throws {
        let certificates = (try DTLSCertificate.generate(), try DTLSCertificate.generate(.rsa2048))
        var established = 0
        for seed in 1...10 {
            var generator = SeededGenerator(seed: UInt64(seed * 1_000 + lossPercent))
            let pair = try DTLSPair(
                client: certificates.0, server: certificates.1, mtu: 600,
                retransmission: DTLSRetransmission(first: .milliseconds(20), limit: .milliseconds(20)))
            pair.start()
            var rounds = 0
            while !pair.isEstablished, !pair.hasFailed, rounds < 1_000 {
                rounds += 1
                var moved = false
                for fromClient in [true, false] {
                    var batch = pair.take(fromClient: fromClient)
                    moved = moved || !batch.isEmpty
                    batch = batch.flatMap { datagram in
                        Int.random(in: 0..<100, using: &generator) < 10 ? [datagram, datagram] : [datagram]
                    }
                    batch.shuffle(using: &generator)
                    for datagram in batch where Int.random(in: 0..<100, using: &generator) >= lossPercent {
                        pair.deliver(datagram, toClient: !fromClient)
                    }
                }
                // A server with keys runs no timer; the client's timer drives the rest.
                if !moved, !pair.isEstablished { #expect(pair.fireTimer()) }
            }
            if pair.isEstablished {
                established += 1
                #expect(try #require(pair.clientKeys).mirrors(#require(pair.serverKeys)))
            } else {
                #expect(pair.clientError?.code == .timeout || pair.serverError?.code == .timeout)
            }
            #expect(pair.largestDatagram <= 600)
        }
        #expect(established >= (lossPercent < 50 ? 10 : 1), "\(established) of 10")
        measure(
            "handshakes of 10 with \(lossPercent) % loss", Double(established), atLeast: lossPercent < 50 ? 10 : 7,
            unit: "handshakes")
    }

    /// Without any answer, the client retransmits on its timer a few times, then fails with a reason.
    @Test
    func silenceEndsInATimeout() throws {
        let pair = try DTLSPair(
            retransmission: DTLSRetransmission(first: .milliseconds(20), limit: .milliseconds(20)))
        pair.note(pair.client.start(), client: true)
        var sent = pair.take(fromClient: true).count
        #expect(sent == 1)
        for _ in 0..<20 where pair.clientError == nil {
            #expect(pair.fireTimer())
            sent += pair.take(fromClient: true).count
        }
        #expect(pair.clientError?.code == .timeout)
        #expect((10...14).contains(sent))
        #expect(pair.client.nextTimeout == nil)
    }

    /// The answer arrives after the timer was due but before it was handled, as on a slow path: no second timeout is
    /// needed.
    @Test(arguments: [true, false])
    func answersAfterTheTimer(timerIsHandled: Bool) throws {
        let pair = try DTLSPair(retransmission: DTLSRetransmission(first: .milliseconds(20), limit: .milliseconds(20)))
        pair.start()
        #expect(DTLSPair.waitUntilDue(pair.client), "the client's timer is not due: \(pair.client.nextTimeout as Any)")
        if timerIsHandled { pair.note(pair.client.handleTimeout(), client: true) }
        pair.run()
        #expect(pair.isEstablished)
    }

    @Test
    func timersStartAtFiftyMilliseconds() throws {
        let pair = try DTLSPair(retransmission: .standard)
        #expect(pair.client.nextTimeout == nil)
        pair.note(pair.client.start(), client: true)
        let left = try #require(pair.client.nextTimeout)
        #expect(left <= .milliseconds(50))
        // The timer is not due yet: nothing happens.
        _ = pair.take(fromClient: true)
        if left > .milliseconds(20) {
            pair.note(pair.client.handleTimeout(), client: true)
            #expect(pair.take(fromClient: true).isEmpty || pair.client.counters.retransmissions == 1)
        }
        #expect(pair.client.nextTimeout != nil)
    }
}
