import Synchronization

/// The media faults that are on now. Streaming threads query it; the control channel adds faults.
final class MediaFaults: Sendable {
    private struct Entry {
        var kind: FaultKind.Media
        /// Seconds after `origin`.
        var delay: Double
        /// Seconds; nil: without end.
        var duration: Double?
        /// Start of `delay`; nil until the first frame arrives.
        var origin: ContinuousClock.Instant?
    }

    private let entries: Mutex<[Entry]>

    init(_ plan: FaultPlan) {
        entries = Mutex(
            plan.faults.compactMap { fault in
                guard case .media(let kind) = fault.kind else { return nil }
                // The wrong SSRC applies from the first packet on.
                return Entry(kind: kind, delay: kind == .wrongSSRC ? 0 : fault.at ?? 3, duration: fault.for)
            })
    }

    func add(_ faults: [Fault], now: ContinuousClock.Instant = .now) {
        entries.withLock { entries in
            for fault in faults where entries.count < FaultPlan.maximumCount {
                guard case .media(let kind) = fault.kind else { continue }
                entries.append(Entry(kind: kind, delay: fault.at ?? 0, duration: fault.for, origin: now))
            }
        }
    }

    func frameArrived(now: ContinuousClock.Instant = .now) {
        entries.withLock { entries in
            for index in entries.indices where entries[index].origin == nil { entries[index].origin = now }
        }
    }

    func contains(_ kind: FaultKind.Media) -> Bool {
        entries.withLock { $0.contains { $0.kind == kind } }
    }

    func isOn(_ kind: FaultKind.Media, now: ContinuousClock.Instant = .now) -> Bool {
        entries.withLock { entries in
            entries.contains { entry in
                guard entry.kind == kind, let origin = entry.origin else { return false }
                let end = entry.duration.map { .seconds(entry.delay + $0) } ?? Duration.seconds(Int.max)
                return now - origin >= .seconds(entry.delay) && now - origin < end
            }
        }
    }
}

/// Overwrites an encoded frame with random bytes, except its beginning, so that it still passes as a frame.
enum Garbage {
    /// VP8's frame header is 10 bytes (RFC 6386 §9.1); NAL units of H.264 begin within the first few dozen.
    private static let headerSize = 48

    static func spoil(_ bytes: UnsafeMutableRawBufferPointer) {
        guard bytes.count > headerSize else { return }
        // Exclude 0 and 1: a start code in the data would begin a new NAL unit.
        for index in headerSize..<bytes.count { bytes[index] = UInt8.random(in: 2...255) }
    }
}
