/// Frames of an input that is not live, for which upstream's thread has waited long enough: they leave first once a media
/// path takes frames, so that a file loses nothing while a session connects. A value.
package struct KeptFrames<Frame: Sendable>: Sendable {
    private var frames: [(frame: Frame, bytes: Int)] = []
    private var bytes = 0

    /// An input that waits gives one frame a second, so this many seconds.
    private static var maximumFrames: Int { 16 }
    private static var maximumBytes: Int { 64_000_000 }

    package init() {}

    package var count: Int { frames.count }

    /// - Returns: false if there is no room for the frame.
    package mutating func append(_ frame: Frame, bytes size: Int) -> Bool {
        guard frames.count < Self.maximumFrames, size <= Self.maximumBytes &- bytes else { return false }
        frames.append((frame, size))
        bytes &+= size
        return true
    }

    package mutating func takeFirst() -> Frame? {
        guard !frames.isEmpty else { return nil }
        let first = frames.removeFirst()
        bytes &-= first.bytes
        return first.frame
    }

    /// Undoes `takeFirst`.
    package mutating func putBack(_ frame: Frame, bytes size: Int) {
        frames.insert((frame, size), at: 0)
        bytes &+= size
    }
}
