import EventLoopThreads
import Glibc
import MediaSecurity
import TestSupport
import Testing

import Network

/// Signalling shares a thread with the media of a session: how long packets wait there while another session's TLS
/// handshakes run.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct HandshakeDelayTests {
    private static let handshakes = 1_000

    /// Handshakes one after the other on the thread of what is tested, with a server on another one.
    // @unchecked: after init, used only on the thread, except `isDone`.
    private final class Dialler: @unchecked Sendable {
        let isDone = Observed(false)
        private(set) var isShaking = false
        /// Called after each.
        var onHandshake: () -> Void = {}
        private let listener: Listener
        private let contexts: TLSContexts
        private var remaining = HandshakeDelayTests.handshakes
        private var connector: Connector?
        private var hasFailed = false

        init() throws {
            let contexts = try TLSContexts.shared.get()
            self.contexts = contexts
            listener = try Listener(at: .loopback(), on: NetworkThread(name: "server")) { stream in
                stream.onEvent = { event in if case .secured = event { stream.finish(within: .seconds(1)) } }
                guard let session = try? TLSSession(server: contexts.server) else { return }
                stream.secure(session)
                stream.start()
            }
        }

        deinit { listener.close() }

        /// - Parameter pause: before each handshake.
        func run(pause: Duration) {
            guard remaining > 0, !hasFailed else { return isDone.change { [hasFailed] in $0 = !hasFailed } }
            remaining -= 1
            NetworkThread.test.later(after: pause) { self.shake(pause) }
        }

        private func shake(_ pause: Duration) {
            isShaking = true
            let destination = Destination(host: "127.0.0.1", port: listener.port, limit: .seconds(20))
            connector = Connector(to: destination, tls: contexts.client, on: .test) { result in
                self.isShaking = false
                self.connector = nil
                if case .success(let stream) = result { stream.close() } else { self.hasFailed = true }
                self.onHandshake()
                self.run(pause: pause)
            }
        }
    }

    /// Delays in ms of datagrams from their sending to their handler.
    // @unchecked: used only on the thread.
    private final class Delays: @unchecked Sendable {
        var alone: [Double] = []
        var beside: [Double] = []
    }

    private static func percentile(_ share: Double, _ values: [Double]) -> Double {
        let sorted = values.sorted()
        return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }

    /// A datagram each millisecond, as media of some sessions.
    @Test(.enabled(if: Verification.isOn, Comment(rawValue: Verification.comment)))
    func handshakesOnTheThreadDelayMedia() async throws {
        let (dialler, delays, sender) = (try Dialler(), Delays(), try LoopbackSocket())
        let address = try SocketAddress.loopback(Int(sender.port))
        let socket = try NetworkThread.test.sync { () throws(NetworkError) in
            try DatagramSocket(to: address, from: nil, on: .test)
        }
        NetworkThread.test.sync {
            socket.onEvent = { result in
                guard let bytes = try? result.get() else { return }
                let sent = bytes.reduce(0) { $0 << 8 | Int($1) }
                let delay = Double(NetworkThread.now - sent) / 1000
                if dialler.isShaking { delays.beside.append(delay) } else { delays.alone.append(delay) }
            }
            socket.send([0])
        }
        let client = try #require(SocketAddress { CInt(recvfrom(sender.descriptor, nil, 0, 0, $0, $1)) })
        detachThread {
            while !dialler.isDone.value {
                let now = NetworkThread.now
                let bytes = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: now >> $0) }
                client.withSocketAddress { _ = sendto(sender.descriptor, bytes, bytes.count, 0, $0, $1) }
                usleep(1000)
            }
        }
        NetworkThread.test.sync { dialler.run(pause: .milliseconds(5)) }
        #expect(await dialler.isDone.wait(.seconds(100)) { $0 })
        let (alone, beside) = NetworkThread.test.sync {
            socket.close()
            return (delays.alone, delays.beside)
        }
        let added = Self.percentile(0.99, beside) - Self.percentile(0.99, alone)
        measure("packets beside a handshake", Double(beside.count), atLeast: 100, unit: "packets")
        measure("what handshakes add at the 99th percentile", added, atMost: 2, unit: "ms")
        measure("median beside a handshake", Self.percentile(0.5, beside), atMost: 0.5, unit: "ms")
    }

    /// CPU time of one turn of the loop, for which packets that arrive meanwhile wait: the machine's other load does not change
    /// it much.
    @Test(.enabled(if: Verification.isOn, Comment(rawValue: Verification.comment)))
    func turnsOfAHandshakeAreShort() async throws {
        // @unchecked: used only on the thread.
        final class Turns: @unchecked Sendable {
            var longest = 0.0
            private var last = Double.infinity

            func next() {
                var time = timespec()
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
                let now = Double(time.tv_sec) * 1000 + Double(time.tv_nsec) / 1_000_000
                longest = max(longest, now - last)
                last = now
            }
        }
        let (dialler, turns) = (try Dialler(), Turns())
        let worst = EventLog<Double>()
        @Sendable func turn() {
            turns.next()
            if !dialler.isDone.value { NetworkThread.test.async { turn() } }
        }
        NetworkThread.test.sync {
            dialler.onHandshake = {
                worst.append(turns.longest)
                turns.longest = 0
            }
            turn()
            dialler.run(pause: .zero)
        }
        #expect(await dialler.isDone.wait(.seconds(100)) { $0 })
        let values = worst.elements
        measure("longest turn of a handshake, median", Self.percentile(0.5, values), atMost: 1, unit: "ms of CPU")
        measure(
            "longest turn of a handshake, 99th percentile", Self.percentile(0.99, values), atMost: 2, unit: "ms of CPU")
    }
}
