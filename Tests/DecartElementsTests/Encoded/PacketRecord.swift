import GStreamerKit
import TestSupport
import Testing

/// Records the Opus packets that pass a pad: a hash of each, and how they follow one another.
// @unchecked: only the pad's streaming thread touches `segment`.
final class PacketRecord: @unchecked Sendable {
    struct Seen: Sendable {
        var hashes: [UInt64] = []
        var caps: [String] = []
        var gaps = 0
        /// Distances of a packet or gap from the end of what preceded it, ns, if more than 1 µs.
        var holes: [Int64] = []
        var end: UInt64?
        var isEnded = false
    }
    private let seen = Watched(Seen())
    private var segment: Event?

    init(_ pad: Pad) {
        pad.addProbe([.buffer, .downstreamEvent]) { [self] item in
            switch item {
            case .event(let event):
                if event.kind == .segment { segment = event }
                if event.kind == .eos { seen.change { $0.isEnded = true } }
                if let caps = event.caps { seen.change { $0.caps.append(caps.description) } }
                if let gap = event.gap {
                    seen.change {
                        $0.gaps += 1
                        Self.follow(gap.time, gap.duration ?? 0, &$0)
                    }
                }
            case .buffer(let buffer):
                let hash = buffer.withBytes { bytes in
                    bytes.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
                }
                let start = buffer.pts.flatMap { segment?.runningTime(of: $0) }
                seen.change {
                    if let hash { $0.hashes.append(hash) }
                    if let start { Self.follow(start, buffer.duration ?? 0, &$0) }
                }
            case .query: break
            }
            return .pass
        }
    }

    private static func follow(_ start: UInt64, _ duration: UInt64, _ seen: inout Seen) {
        if let end = seen.end, abs(Int64(start) - Int64(end)) > 1000 { seen.holes.append(Int64(start) - Int64(end)) }
        seen.end = start + duration
    }

    var current: Seen { seen.value }
    func wait(until condition: (Seen) -> Bool) -> Bool { seen.wait(until: condition) }
    func waitForPackets(_ count: Int) -> Bool {
        let target = seen.read(\.hashes.count) + count
        return wait { $0.hashes.count >= target }
    }
}
