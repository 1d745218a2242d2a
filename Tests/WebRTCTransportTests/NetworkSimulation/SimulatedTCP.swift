/// A TCP flow that always has data: Reno's slow start, congestion avoidance and fast retransmit. A value on virtual time.
struct SimulatedTCP {
    private static let segment = 1460
    private let delay: Duration
    /// Segments.
    private var window = 10.0
    private var threshold = Double.infinity
    private var next: UInt32 = 0
    private var acknowledged: UInt32 = 0
    /// After a loss, the window is not halved again until this segment is acknowledged.
    private var recovery: UInt32 = 0
    private var timeout = Duration.seconds(1)
    private var arrivedSegments: Set<UInt32> = []
    private var expected: UInt32 = 0
    private var acknowledgements: [(time: Duration, cumulative: UInt32, received: Int)] = []
    private var lost: [UInt32] = []
    private var received = 0
    private var retransmitted: UInt32?
    private var beyond = 0

    init(delay: Duration) { self.delay = delay }

    var nextWake: Duration { min(timeout, acknowledgements.first?.time ?? timeout) }

    /// A segment reached the remote end, whose acknowledgement takes the path's delay.
    mutating func arrived(_ segment: [UInt8], at now: Duration) {
        let number = segment.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        if number >= expected { arrivedSegments.insert(number) }
        while arrivedSegments.remove(expected) != nil { expected += 1 }
        acknowledgements.append((now + delay, expected, arrivedSegments.count))
    }

    mutating func wake(at now: Duration, _ send: ([UInt8]) -> Void) {
        while let first = acknowledgements.first, first.time <= now {
            acknowledgements.removeFirst()
            acknowledge(first.cumulative, beyond: first.received, now, send)
        }
        if timeout <= now {
            (threshold, window) = (max(2, window / 2), 1)
            (next, beyond, recovery) = (acknowledged, 0, acknowledged)
            timeout = now + .seconds(1)
        }
        // Segments that arrived beyond a hole are not in flight any more.
        while Double(next - acknowledged) - Double(beyond) < window {
            self.send(next, send)
            next += 1
        }
    }

    private mutating func acknowledge(_ cumulative: UInt32, beyond: Int, _ now: Duration, _ send: ([UInt8]) -> Void) {
        self.beyond = beyond
        if cumulative > acknowledged {
            window += Double(cumulative - acknowledged) * (window < threshold ? 1 : 1 / window)
            (acknowledged, timeout, retransmitted) = (cumulative, now + .seconds(1), nil)
            next = max(next, acknowledged)
        }
        guard beyond >= 3, retransmitted != acknowledged else { return }
        if acknowledged >= recovery {
            window = max(2, window / 2)
            (threshold, recovery) = (window, next)
        }
        retransmitted = acknowledged
        self.send(acknowledged, send)
    }

    private func send(_ number: UInt32, _ send: ([UInt8]) -> Void) {
        let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
        send(bytes + [UInt8](repeating: 0, count: Self.segment - 4))
    }
}
