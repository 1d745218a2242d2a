// `mute-video`: black in place of the input, a few pictures a second, so that the track, and with it the session, lives.
// It needs no input: a camera may be given back meanwhile.
import GStreamerKit
import Synchronization
import WebRTCTransport

final class MutedInput: Sendable {
    /// ms. Enough for the media watchdog and for a viewer who joins, and next to no bitrate.
    private static let interval = 200

    private struct State {
        /// Running time of the last input frame, and when it came: black goes on from there.
        var anchor: (time: ClockTime, at: Duration)?
        var lastBlack: ClockTime?
        var black: EncoderFrame?

        mutating func next(width: Int, height: Int, now: ClockTime?) -> EncoderFrame? {
            let goesOn = anchor.map { $0.time &+ ClockTime((MonotonicTime.now - $0.at).clockTime) }
            guard let time = goesOn ?? now, lastBlack.map({ time > $0 }) ?? true else { return nil }
            if black?.size.width != width || black?.size.height != height {
                black = Self.makeBlack(width: width, height: height)
            }
            guard let black else { return nil }
            lastBlack = time
            return EncoderFrame(buffer: black.buffer, size: black.size, runningTime: time)
        }

        private static func makeBlack(width: Int, height: Int) -> EncoderFrame? {
            let format = OutputFormat(width: width, height: height, framerate: (0, 1))
            guard let info = (try? Caps(format.capsText)).flatMap(VideoInfo.init(caps:)),
                let buffer = Buffer.blackI420(info)
            else { return nil }
            return EncoderFrame(buffer: buffer, size: (width, height), runningTime: nil)
        }
    }
    private let state = Mutex(State())
    private let timer = PeriodicTimer("decart-muted")

    func start(_ tick: @escaping @Sendable () -> Void) {
        if !timer.isRunning { timer.start(every: Self.interval, tick) }
    }

    func stop() { timer.stop() }

    /// The element stops: returns when no picture is being made any more.
    func finish() { timer.finish() }
    var isOn: Bool { timer.isRunning }

    /// Whether an input frame may leave: not while muted, and afterwards not with a time before the last black one.
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

    /// The next black picture; nil when muting is over, or it is not time for one.
    /// - Parameter now: the running time where no input frame has come yet.
    func picture(width: Int, height: Int, now: ClockTime?) -> EncoderFrame? {
        guard timer.isRunning else { return nil }
        return state.withLock { $0.next(width: width, height: height, now: now) }
    }
}
