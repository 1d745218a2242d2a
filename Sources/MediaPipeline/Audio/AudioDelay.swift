package import GStreamerKit

/// The playout delay of audio. Each change is heard, so it stays while samples are in time and lip sync is right: audio that
/// is 45 ms early or 125 ms late goes unnoticed (ITU-R BT.1359). It rises at once and falls by whole packets, where nobody
/// hears it, or when the excess is long. A value.
package struct AudioDelay: Sendable {
    /// Threads of a busy machine are as late.
    private static let least: ClockTime = 30_000_000
    private static let reserve: ClockTime = 5_000_000
    private static let mostLead: ClockTime = 30_000_000
    private static let mostExcess: ClockTime = 2 * AudioFormat.packet
    package private(set) var current = Self.least

    package mutating func raise(by time: ClockTime) { current &+= min(time, AudioFormat.packet) }

    package init() {}

    /// - Parameters:
    ///   - own: the delay that audio needs.
    ///   - video: the delay of the video.
    ///   - isQuiet: of the packet that is played next.
    package mutating func follow(own: ClockTime, video: ClockTime, isQuiet: @autoclosure () -> Bool) {
        let needed = max(own, video &- min(video, Self.mostLead))
        guard needed <= current else { return current = needed &+ Self.reserve }
        let excess = current &- min(current, max(own, video, Self.least))
        guard excess >= AudioFormat.packet, excess >= Self.mostExcess || isQuiet() else { return }
        current &-= AudioFormat.packet
    }
}
