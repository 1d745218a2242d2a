import GStreamerKit

/// The playout delay of audio. It follows that of the element up at once, because late samples are lost, and down by whole
/// packets, where nobody hears it, or when lip sync needs it: audio that is 45 ms early or 125 ms late goes unnoticed (ITU-R
/// BT.1359). A value.
struct AudioDelay: Sendable {
    private(set) var current: ClockTime = 0
    private static let tolerance: ClockTime = 5_000_000
    private static let mostExcess: ClockTime = 2 * AudioFormat.packet

    /// - Parameter isQuiet: of the packet that is played next.
    mutating func follow(_ delay: ClockTime, isQuiet: @autoclosure () -> Bool) {
        guard delay <= current &+ Self.tolerance else { return current = delay }
        let excess = current &- min(current, delay)
        guard excess >= AudioFormat.packet, excess >= Self.mostExcess || isQuiet() else { return }
        current &-= AudioFormat.packet
    }
}
