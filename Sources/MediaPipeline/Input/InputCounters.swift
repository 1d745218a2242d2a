package struct InputCounters: Sendable {
    package var framesIn: UInt64 = 0
    /// Frames lost because no media path took them.
    package var droppedWithoutSession: UInt64 = 0
    /// Frames lost because the element was not in PLAYING, or flushed.
    package var droppedNotPlaying: UInt64 = 0
    /// Frames lost because the input queue, the encoder or a processor was busy.
    package var droppedBusy: UInt64 = 0
    /// Frames of an encoded input lost because no keyframe had come or its rate was too high.
    package var droppedToKeyframe: UInt64 = 0
    /// Frames dropped by the rate limit: `max-framerate`, or less while the network is congested or the CPU
    /// busy.
    package var framesRateLimited: UInt64 = 0
    /// Frames lost because their memory is smaller than their caps say.
    package var droppedIncomplete: UInt64 = 0
    package var framesSent: UInt64 = 0

    package init() {}

    /// Frames lost before the encoder.
    package var framesDropped: UInt64 {
        droppedWithoutSession &+ droppedNotPlaying &+ droppedBusy &+ droppedToKeyframe &+ droppedIncomplete
    }

    mutating func dropClosed(hasSession: Bool) {
        if hasSession { droppedNotPlaying &+= 1 } else { droppedWithoutSession &+= 1 }
    }
}
