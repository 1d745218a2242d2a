import GStreamerKit
import TestSupport
import Testing

/// Records the frames that pass a pad as I420, with their arrival times.
// @unchecked: only the pad's streaming thread touches `video` and `segment`.
final class FrameWatch: @unchecked Sendable {
    struct Seen: Sendable {
        var count = 0
        var latest: CopiedFrame?
        /// Frame sizes in order, without consecutive duplicates.
        var sizes: [String] = []
        var times: [ContinuousClock.Instant] = []
        /// Running time of each frame, ns.
        var stamps: [UInt64] = []
    }
    let seen = Watched(Seen())
    private var video: VideoInfo?
    private var segment: Event?

    init(_ pad: Pad) {
        pad.addProbe([.buffer, .downstreamEvent]) { [self] item in
            switch item {
            case .event(let event):
                if event.kind == .segment { segment = event }
                if let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                    video = info
                    let size = "\(info.width)x\(info.height)"
                    seen.change { if $0.sizes.last != size { $0.sizes.append(size) } }
                }
            case .buffer(let buffer):
                let stamp = buffer.pts.flatMap { segment?.runningTime(of: $0) }
                let frame = video.flatMap { CopiedFrame(buffer, $0) }
                seen.change { seen in
                    seen.count += 1
                    seen.latest = frame ?? seen.latest
                    seen.times.append(.now)
                    if let stamp { seen.stamps.append(stamp) }
                }
            case .query: break
            }
            return .pass
        }
    }

    func wait(for frame: CopiedFrame, within limit: Double = 2) -> Bool {
        seen.wait { $0.latest.map { $0.difference(from: frame) < limit } ?? false }
    }

    func waitForFrames(_ count: Int) -> Bool {
        let target = seen.read(\.count) + count
        return seen.wait { $0.count >= target }
    }

    var hasRisingStamps: Bool {
        seen.read { zip($0.stamps, $0.stamps.dropFirst()).allSatisfy { $0 < $1 } }
    }

    /// Returns the longest time without a frame since `start`.
    func longestGap(since start: ContinuousClock.Instant) -> Duration {
        let times = seen.read(\.times).filter { $0 >= start }
        return zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? .zero
    }
}

extension CopiedFrame {
    var mirrored: CopiedFrame {
        func flip(_ plane: [UInt8], _ width: Int) -> [UInt8] {
            stride(from: 0, to: plane.count, by: width).flatMap { plane[$0..<min($0 + width, plane.count)].reversed() }
        }
        return CopiedFrame(
            width: width, height: height,
            planes: zip(planes, [width, chromaWidth, chromaWidth]).map { flip($0, $1) })
    }
}
