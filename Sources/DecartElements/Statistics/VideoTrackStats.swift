// Size, rates and last activity of the video, for `stats`. The streaming threads write it.
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

final class VideoTrackStats: Sendable {
    enum Publication: String, Sendable { case none, publishing, published, muted, withdrawn }

    /// Values that the streaming threads have recorded.
    struct Reading: Sendable {
        /// Size of the last sent frame.
        var size: (width: Int, height: Int)?
        /// Running times of the last frames.
        var lastSent: ClockTime?
        var lastReceived: ClockTime?
        /// Bitrate of the sent packets, bit/s.
        var bitrate: Int?
        /// Frames in the last second.
        var sentRate = 0
        var receivedRate = 0
        var freezes = FreezeMeter()
    }

    private struct State {
        var reading = Reading()
        var window: (start: Duration, bytes: UInt64)?
        var sentRate = FrameRateMeter()
        var receivedRate = FrameRateMeter()

        /// Measures the bitrate over a second or more of the connection's byte counter. A counter that has fallen
        /// belongs to a new connection and starts over.
        mutating func measure(_ bytes: UInt64, now: Duration) {
            guard let window, bytes >= window.bytes else {
                self.window = (now, bytes)
                return
            }
            let time = (now - window.start) / .milliseconds(1)
            guard time >= 1000 else { return }
            reading.bitrate = Int(min(Double(bytes &- window.bytes) * 8000 / time, 1e12))
            self.window = (now, bytes)
        }
    }
    private let state = Mutex(State())

    /// Called at each start of the element. The count of freezes continues.
    func begin() {
        state.withLock { state in
            var freezes = state.reading.freezes
            freezes.pause()
            state = State()
            state.reading.freezes = freezes
        }
    }

    /// Records a frame that goes to the encoder.
    /// - Parameters:
    ///   - bytes: bytes that the connection has sent so far.
    ///   - time: the element's running time.
    func sent(_ size: (width: Int, height: Int), bytes: UInt64, at time: ClockTime?) {
        let now = MonotonicTime.now
        state.withLock { state in
            (state.reading.size, state.reading.lastSent) = (size, time ?? state.reading.lastSent)
            state.sentRate.frame(at: now)
            state.measure(bytes, now: now)
        }
    }

    /// Records a decoded frame.
    func received(at time: ClockTime?) {
        let now = MonotonicTime.now
        state.withLock { state in
            state.reading.lastReceived = time ?? state.reading.lastReceived
            state.receivedRate.frame(at: now)
            state.reading.freezes.frame(at: now)
        }
    }

    /// - Parameter bytes: bytes that the connection has sent so far; nil without a connection.
    func read(bytes: UInt64?, now: Duration) -> Reading {
        state.withLock { state in
            if let bytes { state.measure(bytes, now: now) }
            (state.reading.sentRate, state.reading.receivedRate) =
                (state.sentRate.rate(at: now), state.receivedRate.rate(at: now))
            return state.reading
        }
    }
}
