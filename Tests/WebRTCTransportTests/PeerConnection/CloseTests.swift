import Dispatch
import GStreamerKit
import ICE
import Synchronization
import TestSupport
import Testing
import WebRTCTransport

/// A connection may be closed at any moment and from any thread, and releases everything.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct CloseTests {
        /// Runs `body` and expects both peers' objects to be freed afterwards.
        private func withPair(
            listensForTCP: Bool = false, test: String = #function, _ body: (TestPeer, TestPeer) throws -> Void
        ) throws {
            let connections = Mutex<[Weak]>([])
            try autoreleased {
                let a = try TestPeer()
                var configuration = PeerConnectionConfiguration()
                configuration.network.listensForTCP = listensForTCP
                let b = try TestPeer(configuration)
                connections.withLock { $0 = [Weak(a.connection), Weak(b.connection)] }
                defer {
                    let start = ContinuousClock.now
                    a.stop()
                    b.stop()
                    let took = ContinuousClock.now - start
                    measure("time to stop two peers", took, atMost: .seconds(1), test: test)
                    #expect(took < .seconds(20))
                }
                try body(a, b)
            }
            #expect(
                eventually(seconds: 20) { connections.withLock { $0.allSatisfy { $0.isGone } } },
                "a connection stays")
        }

        private struct Weak: @unchecked Sendable {
            // Unchecked, because weak references are read and cleared atomically.
            private weak var connection: PeerConnection?
            init(_ connection: PeerConnection) { self.connection = connection }
            var isGone: Bool { connection == nil }
        }

        @inline(never) private func autoreleased(_ body: () throws -> Void) rethrows { try body() }

        enum Closer: CaseIterable, Sendable { case offerer, answerer, bothAtOnce, offererTwice }

        @Test(arguments: [0, 1, 5, 20, 100], Closer.allCases)
        func afterMilliseconds(_ delay: Int, by closer: Closer) throws {
            try withPair { a, b in
                try join(a, b)
                try TestPeer.startMedia(a, b)
                let closed = DispatchGroup()
                let closing =
                    closer == .offerer ? [a] : closer == .answerer ? [b] : closer == .bothAtOnce ? [a, b] : [a, a]
                for peer in closing {
                    closed.enter()
                    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(delay)) {
                        peer.connection.close()
                        closed.leave()
                    }
                }
                #expect(closed.wait(timeout: .now() + 20) == .success)
                for peer in closing { #expect(peer.seen.wait(.seconds(20)) { $0.state == .closed }) }
            }
        }

        /// Over TCP the alert must leave before the socket is closed, which has unread media.
        @Test(arguments: [false, true]) func whileMediaFlows(overTCP: Bool) throws {
            try withPair(listensForTCP: overTCP) { a, b in
                try join(a, b, keep: { !overTCP || $0.candidate.hasSuffix("tcptype passive") })
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
                let start = ContinuousClock.now
                a.connection.close()
                #expect(a.seen.wait(.seconds(20)) { $0.state == .closed })
                // The DTLS alert close_notify informs the remote peer, long before it would notice the silence.
                #expect(b.seen.wait(.seconds(20)) { $0.failed != nil })
                measure("time until the remote peer knows", ContinuousClock.now - start, atMost: .seconds(1))
                #expect(b.error == .closedByPeer)
                // Statistics of a closed connection still return its last values.
                #expect(a.connection.statistics().packetsSent > 0)
            }
        }

        @Test func betweenOfferAndAnswer() throws {
            try withPair { a, b in
                let offer = try a.connection.createOffer()
                let answer = try b.connection.createAnswer(to: offer)
                a.connection.close()
                #expect(throws: PeerConnectionError.self) { try a.connection.setAnswer(answer) }
                a.connection.addRemoteCandidate(
                    ICECandidate(candidate: "candidate:1 1 UDP 1 127.0.0.1 9 typ host", sdpMid: "0", sdpMLineIndex: 0))
                a.connection.addRemoteCandidate(nil)
            }
        }

        @Test func nothingStartsAfterTheEnd() throws {
            try withPair { a, b in
                a.connection.close()
                b.connection.close()
                b.connection.close()
                b.connection.dismantle()
                for attempt in [
                    { try a.connection.createOffer() }, { try b.connection.createAnswer(to: SampleOffer.browser) },
                ] {
                    do {
                        _ = try attempt()
                        Issue.record("a closed connection negotiates")
                    } catch { #expect((error as? PeerConnectionError)?.code == .wrongState) }
                }
                #expect(a.connection.negotiatedCodec == nil)
            }
        }

        @Test func racingWithNegotiation() throws {
            let offer = SampleOffer.browser
            for round in Verification.isOn ? Array(0..<40) : Array(stride(from: 0, to: 40, by: 4)) {
                try withPair { a, b in
                    let done = DispatchGroup()
                    for (peer, negotiates) in [(a, true), (b, true), (a, false), (b, false)] {
                        done.enter()
                        detachThread {
                            if negotiates {
                                _ =
                                    peer === a
                                    ? try? peer.connection.createOffer() : try? peer.connection.createAnswer(to: offer)
                            } else {
                                for _ in 0..<(round * 400) { _ = peer.connection.negotiatedCodec }
                                peer.connection.close()
                                peer.connection.dismantle()
                            }
                            done.leave()
                        }
                    }
                    #expect(done.wait(timeout: .now() + 20) == .success)
                    #expect(a.seen.wait(.seconds(20)) { $0.state == .closed })
                    #expect(b.seen.wait(.seconds(20)) { $0.state == .closed })
                }
            }
        }

        @Test func fromACallback() throws {
            try withPair { a, b in
                let closing = Watched(false)
                try join(a, b)
                // Called on the network thread; the first candidates come between the start of ICE and DTLS.
                a.trickle { [weak a] _ in
                    a?.connection.close()
                    closing.change { $0 = true }
                }
                #expect(closing.wait(.seconds(20)) { $0 })
                #expect(a.seen.wait(.seconds(20)) { $0.state == .closed })
            }
        }
    }
}
