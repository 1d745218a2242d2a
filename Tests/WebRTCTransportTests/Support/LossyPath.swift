import Glibc
import Synchronization
import TestSupport
import WebRTCTransport

/// The only network path between two peers. It drops datagrams with a seeded generator, counts and measures them, and
/// can inject others. Each peer gets this path's ports instead of the other peer's.
final class LossyPath: Sendable {
    struct Seen: Sendable {
        var dropped = 0
        /// UDP payload, bytes.
        var largest = 0
    }
    enum Side: Int, Sendable {
        case a, b
        var other: Side { self == .a ? .b : .a }
    }

    var seen: Seen { core.seen.value }
    private let core: Core

    init(seed: UInt64 = 1) throws {
        core = try Core(seed: seed)
        detachThread { [core] in core.run() }
    }

    deinit { core.stop() }

    func setLoss(_ loss: Double) { core.state.withLock { $0.loss = loss } }

    /// Drops datagrams of more bytes than this, as a tunnel does whose ICMP messages are filtered.
    func setLongest(_ bytes: Int) { core.state.withLock { $0.longest = bytes } }

    /// Drops DTLS records: ICE stays connected and the handshake retransmits.
    func holdHandshake(_ held: Bool) { core.state.withLock { $0.holdsHandshake = held } }

    /// Holds the final flight of the handshake (from ChangeCipherSpec on) until `releaseLastFlight`.
    func holdLastFlight(to side: Side) { core.state.withLock { $0.withoutLastFlight = side } }
    func releaseLastFlight() {
        let (side, held) = core.state.withLock { state in
            defer { (state.withoutLastFlight, state.lastFlight) = (nil, []) }
            return (state.withoutLastFlight, state.lastFlight)
        }
        if let side { for datagram in held { inject(datagram, to: side) } }
    }

    /// Records the SRTP packets of this SSRC.
    func record(_ ssrc: UInt32) { core.state.withLock { $0.recordedSSRC = ssrc } }
    var recorded: [[UInt8]] { core.state.withLock(\.recorded) }

    /// Sends a datagram that seems to come from the other peer.
    func inject(_ bytes: [UInt8], to side: Side) {
        guard let port = core.state.withLock({ $0.real[side.rawValue] }) else { return }
        core.stands[side.other.rawValue].send(bytes, to: port)
    }

    /// The port on which `side` listens, for sending datagrams from elsewhere.
    func port(of side: Side) -> UInt16? { core.state.withLock { $0.real[side.rawValue] } }

    /// Returns the candidate to signal instead of one that `side` gathered, nil if it would bypass this path.
    func replace(_ candidate: ICECandidate, of side: Side) -> ICECandidate? {
        var fields = candidate.candidate.split(separator: " ").map(String.init)
        guard fields.count >= 8, fields[4] == "127.0.0.1", fields[7] == "host", let port = UInt16(fields[5]) else {
            return nil
        }
        core.state.withLock { $0.real[side.rawValue] = port }
        fields[5] = String(core.stands[side.rawValue].port)
        var replaced = candidate
        replaced.candidate = fields.joined(separator: " ")
        return replaced
    }

    /// State of the thread that forwards datagrams.
    private final class Core: Sendable {
        struct State: Sendable {
            var loss = 0.0
            var longest = Int.max
            var generator: SeededGenerator
            var holdsHandshake = false
            var withoutLastFlight: Side?
            var lastFlight: [[UInt8]] = []
            var recordedSSRC: UInt32?
            var recorded: [[UInt8]] = []
            /// The peers' real ports, known once they have gathered candidates.
            var real: [UInt16?] = [nil, nil]
        }
        let seen = Watched(Seen())
        let state: Mutex<State>
        /// `stands[x]` represents peer x to the other peer.
        let stands: [DatagramSocket]
        private let wake: DatagramSocket

        init(seed: UInt64) throws {
            state = Mutex(State(generator: SeededGenerator(seed: seed)))
            stands = [try DatagramSocket(), try DatagramSocket()]
            wake = try DatagramSocket()
        }

        func stop() { wake.send([0], to: wake.port) }

        func run() {
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)
            defer { buffer.deallocate() }
            var items = (stands + [wake]).map(\.descriptor).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            while poll(&items, nfds_t(items.count), -1) >= 0 || errno == EINTR {
                if items[2].revents != 0 { return }
                for side in [Side.a, .b] {
                    while let (count, port) = stands[side.rawValue].receive(into: buffer) {
                        carry(UnsafeRawBufferPointer(rebasing: buffer[..<count]), from: port, to: side)
                    }
                }
            }
        }

        private func carry(_ datagram: UnsafeRawBufferPointer, from port: UInt16, to side: Side) {
            let first = datagram.first ?? 0
            let (target, isLost): (UInt16?, Bool) = state.withLock { state in
                // Ignore other sources.
                guard port == state.real[side.other.rawValue] else { return (nil, false) }
                if first == 20, state.withoutLastFlight == side {
                    state.lastFlight = [Array(datagram)]
                    return (state.real[side.rawValue], true)
                }
                if let ssrc = state.recordedSSRC, datagram.count >= 12, (128...191).contains(first),
                    datagram.loadUnaligned(fromByteOffset: 8, as: UInt32.self).bigEndian == ssrc
                {
                    state.recorded.append(Array(datagram))
                }
                if (20...63).contains(first), state.holdsHandshake { return (state.real[side.rawValue], true) }
                if datagram.count > state.longest { return (state.real[side.rawValue], true) }
                return (state.real[side.rawValue], Double.random(in: 0..<1, using: &state.generator) < state.loss)
            }
            guard let target else { return }
            seen.change { seen in
                seen.largest = max(seen.largest, datagram.count)
                if isLost { seen.dropped += 1 }
            }
            if !isLost { stands[side.other.rawValue].send(datagram, to: target) }
        }
    }
}

/// Joins two peers through `path` only.
func join(
    _ a: TestPeer, _ b: TestPeer, over path: LossyPath, mangleOffer: (String) -> String = { $0 }
) throws {
    let offer = try a.connection.createOffer()
    let answer = try b.connection.createAnswer(to: mangleOffer(offer))
    try a.connection.setAnswer(answer)
    trickle(a, b, over: path)
}

func trickle(_ a: TestPeer, _ b: TestPeer, over path: LossyPath) {
    func hand(_ from: TestPeer, _ side: LossyPath.Side, to target: TestPeer) {
        from.trickle { [weak target] candidate in
            guard let candidate else {
                target?.connection.addRemoteCandidate(nil)
                return
            }
            if let replaced = path.replace(candidate, of: side) { target?.connection.addRemoteCandidate(replaced) }
        }
    }
    hand(a, .a, to: b)
    hand(b, .b, to: a)
}
