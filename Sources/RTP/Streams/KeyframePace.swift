/// Spaces the keyframes that the remote peer requests of our streams by a round trip: a request that comes earlier knows
/// nothing of the last keyframe. A keyframe for each would fill the queue of a narrow path, so that none arrives whole. A
/// value without a clock.
package struct KeyframePace: Sendable {
    package enum Answer: Sendable, Equatable {
        case now
        /// Ask again after this time.
        case after(Duration)
        /// An earlier request waits already.
        case waits
    }

    private struct Stream {
        var last: Duration
        var waits = false
    }
    private var streams: [UInt32: Stream] = [:]
    private static let longest = Duration.seconds(2)
    /// The least time between two keyframes of a stream.
    private var interval: Duration
    private let shortest: Duration

    /// - Parameter shortest: the least time between two keyframes, however short the round trip is.
    package init(shortest: Duration = .zero) { (self.shortest, interval) = (shortest, shortest) }

    package mutating func pace(roundTrip: Duration) { interval = max(shortest, min(roundTrip, Self.longest)) }

    /// - Parameter hasWaited: true for a request that comes again after `.after`.
    package mutating func request(ssrc: UInt32, hasWaited: Bool = false, now: Duration) -> Answer {
        guard var stream = streams[ssrc] else {
            streams[ssrc] = Stream(last: now)
            return .now
        }
        guard hasWaited || !stream.waits else { return .waits }
        let wait = stream.last + interval - now
        stream.waits = wait > .zero
        if !stream.waits { stream.last = now }
        streams[ssrc] = stream
        return stream.waits ? .after(wait) : .now
    }
}
