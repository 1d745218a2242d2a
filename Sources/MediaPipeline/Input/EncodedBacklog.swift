/// Frames of an encoded input from a keyframe on that wait for the session which that keyframe has begun: without them, a
/// camera that ignores keyframe requests would show nothing before its next keyframe. A value.
package struct EncodedBacklog<Frame> {
    private var frames: [Frame] = []
    private var bytes = 0

    /// Less than a second of a live input, which a connection carries at once. An input that waits for the session gives
    /// one frame a second.
    private static var maximumFrames: Int { 20 }
    private static var maximumBytes: Int { 4_000_000 }

    package init() {}

    package mutating func append(_ frame: Frame, isKeyframe: Bool, bytes size: Int) {
        if frames.count >= Self.maximumFrames || bytes &+ size > Self.maximumBytes { clear() }
        // Nothing can begin with a frame that depends on another one.
        guard isKeyframe || !frames.isEmpty else { return }
        frames.append(frame)
        bytes &+= size
    }

    package mutating func take() -> [Frame] {
        defer { clear() }
        return frames
    }

    package mutating func clear() { (frames, bytes) = ([], 0) }
}
