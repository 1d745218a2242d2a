import TestSupport
import WebRTCTransport

/// One direction of a path: a queue in front of a bottleneck, delay, jitter and loss. A value on virtual time.
struct SimulatedLink {
    struct Conditions {
        var delay = Duration.zero
        /// Uniform, ±; no packet is faster than light.
        var jitter = Duration.zero
        /// Share of the packets, 0 to 1.
        var loss = 0.0
        /// Mean number of packets that are lost in a row.
        var burst = 1.0
        /// bit/s; nil: unlimited.
        var rate: Int?
        /// Bytes that may wait for the bottleneck.
        var queue = Int.max
        /// False: jitter may reorder packets.
        var keepsOrder = true
    }

    var conditions: Conditions
    private var random: SeededGenerator
    private var isBad = false
    private var freeAt = Duration.zero
    private var lastArrival = Duration.zero
    private var datagrams: [(time: Duration, flow: Int, bytes: [UInt8])] = []
    private(set) var dropped = 0
    /// SRTP's authentication tag, UDP and IPv4.
    private static let headers = 44

    init(_ conditions: Conditions, seed: UInt64) {
        self.conditions = conditions
        random = SeededGenerator(seed: seed)
    }

    var nextArrival: Duration? { datagrams.first?.time }

    /// - Returns: the time that the datagram waits in the queue; nil: it is lost.
    @discardableResult
    mutating func send(_ bytes: [UInt8], flow: Int = 0, at now: Duration) -> Duration? {
        let wait = max(.zero, freeAt - now)
        guard let time = arrival(of: bytes.count + Self.headers, at: now) else {
            dropped += 1
            return nil
        }
        let place = (datagrams.lastIndex { $0.time <= time } ?? -1) + 1
        datagrams.insert((time, flow, bytes), at: place)
        return wait
    }

    mutating func receive(at now: Duration) -> (flow: Int, bytes: [UInt8])? {
        guard let first = datagrams.first, first.time <= now else { return nil }
        datagrams.removeFirst()
        return (first.flow, first.bytes)
    }

    private mutating func arrival(of size: Int, at now: Duration) -> Duration? {
        // Each packet takes the same random numbers, so that a change of one setting changes nothing else.
        let (chance, shift) = (
            Double.random(in: 0..<1, using: &random), Double.random(in: -1...1, using: &random)
        )
        guard !isLost(chance) else { return nil }
        var leaves = now
        if let rate = conditions.rate {
            let wait = max(.zero, freeAt - now)
            guard wait / .seconds(1) * Double(rate) / 8 + Double(size) <= Double(conditions.queue) else { return nil }
            leaves = now + wait + .seconds(Double(size) * 8 / Double(rate))
            freeAt = leaves
        }
        let arrival = leaves + max(.zero, conditions.delay + conditions.jitter * shift)
        if conditions.keepsOrder { lastArrival = max(lastArrival, arrival) }
        return conditions.keepsOrder ? lastArrival : arrival
    }

    /// Gilbert's model: packets are lost in the bad state; the mean stay in each state gives burst length and loss.
    private mutating func isLost(_ chance: Double) -> Bool {
        let (loss, burst) = (conditions.loss, conditions.burst)
        guard burst > 1 else { return chance < loss }
        isBad = isBad ? chance >= 1 / burst : chance < min(1, loss / (1 - loss) / burst)
        return isBad
    }
}
