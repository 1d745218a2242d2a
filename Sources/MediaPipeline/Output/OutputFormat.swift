// Configuration and counters of the output, as plain values.
package import GStreamerKit

package struct OutputCounters: Sendable {
    /// Decoded frames from the service.
    package var received: UInt64 = 0
    package var pushed: UInt64 = 0
    /// Pushed frames that stood in for missing ones.
    package var fallbackFrames: UInt64 = 0
    /// Frames dropped because downstream was still busy.
    package var droppedLate: UInt64 = 0
    /// Frames with a time of display, and those of them that were ready after it.
    package var emitted: UInt64 = 0
    package var shownLate: UInt64 = 0
    /// Sums over them, ns: from the earliest possible arrival to the display, the playout delay, and to the decoded frame.
    package var playoutDelay: ClockTime = 0
    package var targetDelay: ClockTime = 0
    package var processingDelay: ClockTime = 0

    package init() {}

    mutating func played(after delay: ClockTime, target: ClockTime, lateness: ClockTime) {
        emitted &+= 1
        if lateness > target { shownLate &+= 1 }
        playoutDelay &+= delay
        targetDelay &+= target
        processingDelay &+= lateness
    }
}

/// Stream ID and group ID of one start of the element; the group ID ties its video and audio together.
package struct StreamIdentity: Sendable {
    let id = "decart/\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
    let groupID = Event.nextGroupID()
}

/// Size and frame rate of I420 video.
package struct OutputFormat: Sendable, Equatable {
    package var width: Int
    package var height: Int
    package var framerate: (Int, Int)

    /// - Parameter framerate: 0/1 is a variable one.
    package init(width: Int, height: Int, framerate: (Int, Int) = (0, 1)) {
        (self.width, self.height, self.framerate) = (width, height, framerate)
    }

    package static func == (a: OutputFormat, b: OutputFormat) -> Bool {
        a.width == b.width && a.height == b.height && a.framerate == b.framerate
    }

    func hasSize(of other: OutputFormat) -> Bool { width == other.width && height == other.height }

    package var interval: ClockTime {
        framerate.0 > 0 ? 1_000_000_000 &* UInt64(max(1, framerate.1)) / UInt64(framerate.0) : 40_000_000
    }

    var videoInfo: VideoInfo? { (try? Caps(capsText)).flatMap(VideoInfo.init(caps:)) }

    package var capsText: String {
        "video/x-raw, format=(string)I420, width=(int)\(width), height=(int)\(height), "
            + "framerate=(fraction)\(framerate.0)/\(framerate.1), pixel-aspect-ratio=(fraction)1/1, "
            + "interlace-mode=(string)progressive, colorimetry=(string)bt601"
    }
}
