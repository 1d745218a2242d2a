// `mute-video`: replaces the input with a few black frames per second, which keep the track and so the session alive.
// It needs no input, so the application may release a camera while video is muted.
import GStreamerKit
import Synchronization
import WebRTCTransport

final class BlackFrameSource: Sendable {
    /// Often enough for the media watchdog and for a viewer that joins, at next to no bitrate.
    private static let interval: Duration = .milliseconds(200)

    private struct State {
        /// Running time and arrival of the last input frame, from which the black frames continue.
        var anchor: (time: ClockTime, at: Duration)?
        var lastBlack: ClockTime?
        var black: EncoderFrame?

        mutating func next(width: Int, height: Int, now: ClockTime?) -> EncoderFrame? {
            let continued = anchor.map { $0.time &+ ClockTime((MonotonicTime.now - $0.at).clockTime) }
            guard let time = continued ?? now, lastBlack.map({ time > $0 }) ?? true else { return nil }
            if black?.size.width != width || black?.size.height != height {
                black = Self.makeBlack(width: width, height: height)
            }
            guard let black else { return nil }
            lastBlack = time
            return EncoderFrame(buffer: black.buffer, size: black.size, runningTime: time)
        }

        private static func makeBlack(width: Int, height: Int) -> EncoderFrame? {
            let buffer = OutputFormat(width: width, height: height).videoInfo.flatMap(Buffer.blackI420)
            return buffer.map { EncoderFrame(buffer: $0, size: (width, height), runningTime: nil) }
        }
    }
    private let state = StateLock(State())
    private let timer = PeriodicTimer("decart-muted")

    func start(_ tick: @escaping @Sendable () -> Void) {
        if !timer.isRunning { timer.start(every: Self.interval, tick) }
    }

    func stop() { timer.stop() }

    /// Called when the element stops: returns once no black frame is being made.
    func finish() { timer.finish() }
    var isOn: Bool { timer.isRunning }

    /// True if an input frame may be sent: not while muted, and after that only with a time past the last black frame,
    /// or a second or more before it, as after a seek.
    func admits(_ time: ClockTime?) -> Bool {
        state.withLock { state in
            if let time { state.anchor = (time, MonotonicTime.now) }
            guard !timer.isRunning else { return false }
            guard let time, let last = state.lastBlack else { return true }
            if time <= last, last &- time < 1_000_000_000 { return false }
            (state.lastBlack, state.black) = (nil, nil)
            return true
        }
    }

    /// Returns the next black frame; nil once muting is over or while none is due.
    /// - Parameter now: running time, used if no input frame has arrived yet.
    func frame(width: Int, height: Int, now: ClockTime?) -> EncoderFrame? {
        guard timer.isRunning else { return nil }
        return state.withLock { $0.next(width: width, height: height, now: now) }
    }
}
