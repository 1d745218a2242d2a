// What the output is told, and tells, in plain values.
import GStreamerKit

struct OutputCounters: Sendable {
    /// Decoded frames that came.
    var received: UInt64 = 0
    var pushed: UInt64 = 0
    /// Of those pushed, how many were not the service's.
    var fallback: UInt64 = 0
    /// Came while downstream was still busy.
    var late: UInt64 = 0
}

/// Of one start of the element: its streams belong together.
struct StreamIdentity: Sendable {
    let id = "decart/\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
    let groupID = Event.nextGroupID()
}

/// Geometry and rate of what leaves.
struct OutputFormat: Sendable, Equatable {
    var width: Int
    var height: Int
    var framerate: (Int, Int)

    static func == (a: OutputFormat, b: OutputFormat) -> Bool {
        a.width == b.width && a.height == b.height && a.framerate == b.framerate
    }

    var interval: ClockTime {
        framerate.0 > 0 ? 1_000_000_000 &* UInt64(max(1, framerate.1)) / UInt64(framerate.0) : 40_000_000
    }

    var capsText: String {
        "video/x-raw, format=(string)I420, width=(int)\(width), height=(int)\(height), "
            + "framerate=(fraction)\(framerate.0)/\(framerate.1), pixel-aspect-ratio=(fraction)1/1, "
            + "interlace-mode=(string)progressive, colorimetry=(string)bt601"
    }
}
