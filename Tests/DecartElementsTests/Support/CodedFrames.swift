import DecartProtocol
import GStreamerKit
import TestSupport
import Testing

/// Stamps a number onto the top of each input frame and reads it back from the output, to learn which input frame an
/// output frame shows. The stamp survives codecs and the mild looks. It uses the latency marker's code, but stands far
/// from the marker's own place in the bottom-left corner.
final class CodedFrames: Sendable {
    struct Shown: Sendable {
        var number: UInt16
        /// Running times of the input frame and of the output frame, ns.
        var input: UInt64
        var output: UInt64
        /// Time of day of the capture, as the output frame states it, ns.
        var unixTime: UInt64?
        /// Output minus input, ms.
        var difference: Double { Double(Int64(output) - Int64(input)) / 1e6 }
    }
    private struct State: Sendable {
        var sent: [UInt16: UInt64] = [:]
        var next: UInt16 = 0
        var shown: [Shown] = []
        /// Output frames that still have a latency marker in the bottom-left corner.
        var marked = 0
    }
    private let state = Watched(State())

    init(_ pipeline: TransformPipeline) throws {
        let source = try #require(pipeline.pipeline.child(named: "source")?.staticPad("src"))
        watch(source) { [state] buffer, video, time in
            var number: UInt16 = 0
            state.change { state in
                number = state.next
                state.next &+= 1
                state.sent[number] = time
            }
            guard let copy = buffer.copyOfMetadata() else { return nil }
            Self.withTop(copy, video, writable: true) { LatencyMarker.stamp(number, onto: $0) }
            return copy
        }
        watch(try #require(pipeline.transform.staticPad("src"))) { [state] buffer, video, time in
            let number = Self.withTop(buffer, video, writable: false) { LatencyMarker.find(in: $0)?.number }
            let isMarked = Self.withTop(buffer, video, height: video.height, writable: false) {
                LatencyMarker.find(in: $0) != nil
            }
            state.change { state in
                if isMarked == true { state.marked += 1 }
                guard let number = number ?? nil, let input = state.sent[number] else { return }
                state.shown.append(Shown(number: number, input: input, output: time, unixTime: buffer.unixTime))
            }
            return nil
        }
    }

    private func watch(_ pad: Pad, _ replacement: @escaping @Sendable (Buffer, VideoInfo, UInt64) -> Buffer?) {
        // Only for the thread that pushes.
        nonisolated(unsafe) var video: VideoInfo?
        nonisolated(unsafe) var segment: Event?
        pad.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event):
                if event.kind == .segment { segment = event }
                if let info = event.caps.flatMap(VideoInfo.init(caps:)) { video = info }
            case .buffer(let buffer):
                if let video, let time = buffer.pts.flatMap({ segment?.runningTime(of: $0) }),
                    let other = replacement(buffer, video, time)
                {
                    return .replace(other)
                }
            case .query: break
            }
            return .pass
        }
    }

    /// Lends the upper 64 rows: the stamp fills the lower half of them.
    @discardableResult
    private static func withTop<R>(
        _ buffer: Buffer, _ video: VideoInfo, height: Int = 64, writable: Bool, _ body: (BytePlane) -> R
    ) -> R? {
        let result = buffer.withVideoPlanes(video, writable: writable) { planes -> R? in
            guard let plane = planes.first,
                let luma = BytePlane(
                    base: plane.base, stride: plane.stride, width: video.width, height: min(height, video.height))
            else { return nil }
            return body(luma)
        }
        return result ?? nil
    }

    var shown: [Shown] { state.read(\.shown) }
    var markedCount: Int { state.read(\.marked) }

    func waitForShown(_ count: Int) -> Bool {
        let target = shown.count + count
        return state.wait { $0.shown.count >= target }
    }
}

/// Returns the median and the largest absolute value.
func spread(_ values: [Double]) -> (median: Double, worst: Double) {
    let sorted = values.sorted()
    guard let first = sorted.first, let last = sorted.last else { return (.infinity, .infinity) }
    return (sorted[sorted.count / 2], max(abs(first), abs(last)))
}
