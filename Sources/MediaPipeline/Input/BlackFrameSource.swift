// `mute-video`: replaces the input with a few black frames per second, which keep the track and so the session alive.
// It needs no input, so the application may release a camera while video is muted.
package import GStreamerKit
import WebRTCTransport

final class BlackFrameSource: Sendable {
    /// Often enough for the media watchdog and for a viewer that joins, at next to no bitrate.
    private static let interval: Duration = .milliseconds(200)
    private let timer = PeriodicTimer("decart-muted")

    /// - Parameter tick: called with a maker of black frames of a size, which keeps the last one.
    func start(_ tick: @escaping @Sendable (_ frame: (_ width: Int, _ height: Int) -> EncoderFrame?) -> Void) {
        guard !timer.isRunning else { return }
        // Only for the timer's queue.
        nonisolated(unsafe) var black: EncoderFrame?
        timer.start(every: Self.interval) {
            tick { width, height in
                if black?.size.width != width || black?.size.height != height {
                    black = Self.makeBlack(width: width, height: height)
                }
                return black
            }
        }
    }

    func stop() { timer.stop() }

    /// Called when the element stops: returns once no black frame is being made.
    func finish() { timer.finish() }
    var isOn: Bool { timer.isRunning }

    private static func makeBlack(width: Int, height: Int) -> EncoderFrame? {
        let buffer = OutputFormat(width: width, height: height).videoInfo.flatMap(Buffer.blackI420)
        return buffer.map { EncoderFrame(buffer: $0, size: (width, height), runningTime: nil) }
    }
}

/// The times of black frames and those of the input: a value.
package struct BlackFrameTimes: Sendable {
    /// Running time and arrival of the last input frame, from which the black frames continue.
    private var anchor: (time: ClockTime, at: Duration)?
    private var lastBlack: ClockTime?

    package init() {}

    /// True if an input frame may be sent: not while muted, and after that only with a time past the last black frame,
    /// or a second or more before it, as after a seek.
    package mutating func admits(_ time: ClockTime?, isMuted: Bool, at arrival: Duration) -> Bool {
        if let time { anchor = (time, arrival) }
        guard !isMuted else { return false }
        guard let time, let last = lastBlack else { return true }
        if time <= last, last &- time < 1_000_000_000 { return false }
        lastBlack = nil
        return true
    }

    /// Returns the running time of the next black frame; nil while none is due.
    /// - Parameter now: running time, used if no input frame has arrived yet.
    package mutating func next(now: ClockTime?, at: Duration) -> ClockTime? {
        let continued = anchor.map { $0.time &+ ClockTime((at - $0.at).clockTime) }
        guard let time = continued ?? now, lastBlack.map({ time > $0 }) ?? true else { return nil }
        lastBlack = time
        return time
    }
}
