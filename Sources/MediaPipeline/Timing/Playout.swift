package import GStreamerKit
import Synchronization
package import RTP
import WebRTCTransport

/// The adaptive playout delay of an element, which its video and its audio share so that they stay in sync.
package final class Playout: Sendable {
    private struct State: Sendable {
        var delays: [MediaKind: PlayoutDelay] = [:]
        var promised: ClockTime = Playout.step
        /// Output times.
        var begins: [MediaKind: ClockTime] = [:]

        var delay: ClockTime { max(delays[.audio]?.current ?? 0, delays[.video]?.current ?? 0) }
    }
    private let state = Mutex(State())

    /// The latency, ns, that source pads report with an adaptive delay: time for their streaming threads and for the elements
    /// behind them. A PTS is the time of display minus this.
    static let latency: ClockTime = 10_000_000
    /// ns; a buffer leaves this long before it would be late downstream.
    static let margin: ClockTime = 1_000_000

    /// With `timestamps=capture`, the latency that covers the delay rises in steps, so that sinks adapt rarely.
    private static let step: ClockTime = 100_000_000

    package init() {}

    /// Takes the next media.
    /// - Parameters:
    ///   - lateness: from the earliest possible time of their arrival until they were decoded, ns.
    ///   - now: running time, ns.
    @discardableResult
    package func ready(_ kind: MediaKind, after lateness: ClockTime, now: ClockTime) -> ClockTime {
        state.withLock { state in
            state.delays[kind, default: PlayoutDelay(kind)].ready(after: lateness, now: now)
            // Media that have stopped delay the others no longer.
            for (other, delay) in state.delays where other != kind && delay.isOver(at: now) {
                state.delays[other] = nil
            }
            let delay = state.delay
            if delay > state.promised { state.promised = (delay / Self.step &+ 1) &* Self.step }
            return delay
        }
    }

    /// Times in ns.
    package struct Delays: Sendable {
        /// What media of each kind need.
        package fileprivate(set) var audio: ClockTime
        package fileprivate(set) var video: ClockTime
        /// The delay with which the media of the last seconds would have been in time; `delay` follows it.
        package fileprivate(set) var target: ClockTime
        /// The least latency that has covered the delay so far.
        package fileprivate(set) var promised: ClockTime

        /// From the earliest possible arrival to the display.
        package var delay: ClockTime { max(audio, video) }
    }

    package var delays: Delays {
        state.withLock { state in
            Delays(
                audio: state.delays[.audio]?.current ?? 0, video: state.delays[.video]?.current ?? 0,
                target: state.delays.values.map(\.target).max() ?? 0, promised: state.promised)
        }
    }

    package var delay: ClockTime { delays.delay }
    package var target: ClockTime { delays.target }
    package var promised: ClockTime { delays.promised }

    package func end(_ kind: MediaKind) { state.withLock { ($0.delays[kind], $0.begins[kind]) = (nil, nil) } }

    /// ns; streams that begin further apart belong to different moments.
    private static let longestLead: ClockTime = 1_000_000_000

    /// Returns where a stream begins that would begin at this output time: for the first time, where the other one has begun,
    /// if that is near. A muxer that writes no start offsets (mp4mux of GStreamer 1.22 with fragments) would shift one of
    /// them for good. Neither stream waits for the other to begin.
    package func begin(_ kind: MediaKind, at time: ClockTime) -> ClockTime {
        state.withLock { state in
            let other = state.begins[kind] == nil ? state.begins.first { $0.key != kind }?.value : nil
            let begin = other.map { max($0, time) &- min($0, time) <= Self.longestLead ? $0 : time } ?? time
            state.begins[kind] = begin
            return begin
        }
    }

    package func reset() { state.withLock { $0 = State() } }
}
