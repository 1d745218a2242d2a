package import GStreamerKit

/// The playout delay of audio. A change is heard as a gap or a jump, so the delay stays while samples are in time and lip sync
/// is within the limits of ITU-R BT.1359: audio at most 45 ms early or 125 ms late. It rises at once, and falls by one packet
/// during silence, or at any time if it is two packets too long. A value.
package struct AudioDelay: Sendable {
    /// ns; scheduling on a busy machine delays a packet by up to this.
    private static let least: ClockTime = 30_000_000
    private static let reserve: ClockTime = 5_000_000
    private static let maximumLead: ClockTime = 30_000_000
    private static let maximumExcess: ClockTime = 2 * AudioFormat.packet
    package private(set) var current = Self.least

    package init() {}

    package mutating func raise(by time: ClockTime) { current &+= min(time, AudioFormat.packet) }

    /// - Parameters:
    ///   - own: the delay that audio needs.
    ///   - video: the delay of the video.
    ///   - isQuiet: of the packet that is played next.
    package mutating func follow(own: ClockTime, video: ClockTime, isQuiet: @autoclosure () -> Bool) {
        let needed = max(own, video &- min(video, Self.maximumLead))
        guard needed <= current else { return current = needed &+ Self.reserve }
        let excess = current &- min(current, max(own, video, Self.least))
        guard excess >= AudioFormat.packet, excess >= Self.maximumExcess || isQuiet() else { return }
        current &-= AudioFormat.packet
    }
}
