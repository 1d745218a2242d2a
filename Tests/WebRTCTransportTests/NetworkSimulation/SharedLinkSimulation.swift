import RTP
import WebRTCTransport

/// Calls that send video through one narrow link, beside TCP flows, on virtual time.
struct SharedLinkSimulation {
    var conditions: SimulatedLink.Conditions
    /// The rate of the link from these times on, bit/s.
    var changes: [(at: Duration, rate: Int)] = []
    var calls = 1
    var tcpFlows = 0
    var range = 100_000...2_500_000
    var start = 600_000
    /// What the frames need at most.
    var most = Int.max
    var duration = Duration.seconds(60)
    var seed: UInt64 = 1

    struct Result {
        struct Call {
            var target: [(time: Duration, bitrate: Int)] = []
            /// Bytes that arrived and when.
            var arrivals: [(time: Duration, size: Int)] = []
            /// Of its packets, in the queue of the link.
            var waits: [(time: Duration, wait: Duration)] = []
            var dropped = 0
            var plis = 0

            /// bit/s that arrived.
            func throughput(_ from: Int, _ until: Int) -> Int {
                let times = Duration.seconds(from)..<Duration.seconds(until)
                return arrivals.reduce(0) { $0 + (times.contains($1.time) ? $1.size * 8 : 0) } / (until - from)
            }
            /// ms.
            func wait(percentile: Double, _ from: Int, _ until: Int) -> Int {
                let times = Duration.seconds(from)..<Duration.seconds(until)
                let sorted = waits.filter { times.contains($0.time) }.map(\.wait).sorted()
                guard !sorted.isEmpty else { return .max }
                return Int(sorted[min(sorted.count - 1, Int(Double(sorted.count) * percentile))] / .milliseconds(1))
            }
            func summary(_ from: Int, _ until: Int) -> String {
                let waits = [0.5, 0.95, 1].map { wait(percentile: $0, from, until) }
                return "\(throughput(from, until) / 1000) kbit/s, queueing p50 \(waits[0]) p95 \(waits[1]) most "
                    + "\(waits[2]) ms, dropped \(dropped), PLIs \(plis)"
            }
            /// Seconds after `from` until the target satisfies `holds` for the first time.
            func time(from: Int, _ holds: (Int) -> Bool) -> Double {
                let first = target.first { $0.time >= .seconds(from) && holds($0.bitrate) }
                return first.map { ($0.time - .seconds(from)) / .seconds(1) } ?? .infinity
            }
        }
        var calls: [Call] = []
        /// Bytes of TCP that arrived and when.
        var tcp: [(time: Duration, size: Int)] = []

        func tcpThroughput(_ from: Int, _ until: Int) -> Int {
            let times = Duration.seconds(from)..<Duration.seconds(until)
            return tcp.reduce(0) { $0 + (times.contains($1.time) ? $1.size * 8 : 0) } / (until - from)
        }
        /// Jain's index of the calls' throughput: 1 if all get the same.
        func fairness(_ from: Int, _ until: Int) -> Double {
            let rates = calls.map { Double($0.throughput(from, until)) }
            let (sum, squares) = (rates.reduce(0, +), rates.reduce(0) { $0 + $1 * $1 })
            return sum * sum / (Double(rates.count) * max(squares, 1))
        }
    }

    /// One call, and the packets of both directions that are under way beyond the shared queue.
    private final class Call {
        let sender: SimulatedPeer
        let receiver: SimulatedPeer
        var back: SimulatedLink
        var nextSample = Duration.zero

        init(_ simulation: SharedLinkSimulation, seed: UInt64) {
            func peer(_ encoder: SimulatedEncoder?, _ seed: UInt64) -> SimulatedPeer {
                SimulatedPeer(
                    encoder: encoder, range: simulation.range, start: simulation.start,
                    seed: seed)
            }
            var encoder = SimulatedEncoder(seed: seed)
            encoder.most = simulation.most
            // No two cameras have the same clock.
            encoder.framesPerSecond -= Double(seed % 100) / 1000
            sender = peer(encoder, seed &+ 1)
            receiver = peer(nil, seed &+ 2)
            var conditions = simulation.conditions
            (conditions.rate, conditions.loss) = (nil, 0)
            back = SimulatedLink(conditions, seed: seed &+ 3)
        }

        var nextEvent: Duration { min(min(sender.nextWake, receiver.nextWake), back.nextArrival ?? .seconds(1 << 40)) }
    }

    func run() -> Result {
        let calls = (0..<self.calls).map { Call(self, seed: seed &+ UInt64($0) &* 1037) }
        var tcp = (0..<tcpFlows).map { _ in SimulatedTCP(delay: conditions.delay) }
        var link = SimulatedLink(conditions, seed: seed &+ 4)
        var result = Result(calls: calls.map { _ in Result.Call() })
        var pending = changes[...]
        var now = Duration.zero
        func send(_ bytes: [UInt8], _ flow: Int) {
            if let wait = link.send(bytes, flow: flow, at: now) {
                if flow < calls.count { result.calls[flow].waits.append((now, wait)) }
            } else if flow < calls.count {
                result.calls[flow].dropped += 1
            }
        }
        while now < duration {
            while let change = pending.first, change.at <= now {
                link.conditions.rate = change.rate
                pending.removeFirst()
            }
            while let (flow, datagram) = link.receive(at: now) {
                if flow < calls.count {
                    let call = calls[flow]
                    result.calls[flow].arrivals.append((now, datagram.count))
                    call.receiver.receive(datagram, at: now) { call.back.send($0, at: now) }
                } else {
                    result.tcp.append((now, datagram.count))
                    tcp[flow - calls.count].arrived(datagram, at: now)
                }
            }
            for (flow, call) in calls.enumerated() {
                while let (_, datagram) = call.back.receive(at: now) {
                    call.sender.receive(datagram, at: now) { send($0, flow) }
                }
                if call.sender.nextWake <= now { call.sender.wake(at: now) { send($0, flow) } }
                if call.receiver.nextWake <= now {
                    call.receiver.wake(at: now) { call.back.send($0, at: now) }
                }
                if call.nextSample <= now {
                    result.calls[flow].target.append((now, call.sender.target))
                    call.nextSample = now + .milliseconds(20)
                }
            }
            for index in tcp.indices { tcp[index].wake(at: now) { send($0, calls.count + index) } }
            var next = calls.reduce(link.nextArrival ?? .seconds(1 << 40)) { min($0, $1.nextEvent, $1.nextSample) }
            for flow in tcp { next = min(next, flow.nextWake) }
            if let change = pending.first { next = min(next, change.at) }
            now = max(next, now)
        }
        for (flow, call) in calls.enumerated() {
            result.calls[flow].plis = Int(call.receiver.statistics.received.plisSent)
        }
        return result
    }
}
