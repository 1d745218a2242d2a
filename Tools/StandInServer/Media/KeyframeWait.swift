/// Drops an encoded stream's frames up to a keyframe. A value, driven by the frames.
package struct KeyframeWait {
    package enum Step { case pass, drop, dropAndRequest }

    /// Frames dropped so far; nil: the stream flows.
    private var dropped: Int?

    /// The request is repeated, because its sender may ignore one that comes soon after another: libwebrtc's does for 300 ms.
    private static let requestInterval = 15

    package init(isWaiting: Bool) { dropped = isWaiting ? 0 : nil }

    /// Drops from the next frame on.
    package mutating func begin() { dropped = 0 }

    package mutating func add(isKeyframe: Bool) -> Step {
        guard !isKeyframe, let count = dropped else {
            dropped = nil
            return .pass
        }
        dropped = (count + 1) % Self.requestInterval
        return count == 0 ? .dropAndRequest : .drop
    }
}
