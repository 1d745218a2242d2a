import GStreamerKit
import MediaPipeline
import Synchronization
import Testing

/// The scaler on GStreamer's frames: against GStreamer's own elements, and with borders, strides and times.
@Suite(.serialized, .timeLimit(.minutes(2)), .enabled(if: FrameScaler.isFast)) struct FrameScalerTests {
    init() { GStreamerRuntime.initialise() }

    private struct Taken: Sendable {
        var caps: Caps?
        var buffer: Buffer?
        var isOver = false
    }

    /// The first frame that leaves a pipeline description, and its format.
    private func frame(_ description: String) throws -> (Buffer, VideoInfo) {
        let pipeline = try Pipeline(description: "\(description) ! fakesink name=end sync=false")
        defer { pipeline.setState(.null) }
        let taken = Mutex(Taken())
        try #require(pipeline.child(named: "end")?.staticPad("sink")).addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { taken.withLock { $0.caps = caps } }
            case .buffer(let buffer): taken.withLock { $0.buffer = buffer }
            case .query: break
            }
            return .pass
        }
        pipeline.setState(.playing)
        while let message = pipeline.bus.next(timeout: .seconds(20)), message.kind != .eos {
            if message.kind == .error { break }
        }
        let (caps, buffer) = taken.withLock { ($0.caps, $0.buffer) }
        return (try #require(buffer), try #require(caps.flatMap(VideoInfo.init(caps:))))
    }

    /// The samples of each plane, row by row.
    private func planes(_ buffer: Buffer, _ video: VideoInfo) throws -> [[UInt8]] {
        let found = buffer.withVideoPlanes(video, writable: false) { planes in
            planes.enumerated().map { index, plane in
                let (columns, rows) = index == 0 ? (video.width, video.height) : (video.width / 2, video.height / 2)
                return (0..<rows).flatMap { row in
                    Array(UnsafeRawBufferPointer(start: plane.base + row * plane.stride, count: columns))
                }
            }
        }
        return try #require(found)
    }

    /// Mean squared error of two planes.
    private func error(_ one: [UInt8], _ other: [UInt8]) -> Double {
        guard one.count == other.count, !one.isEmpty else { return .infinity }
        let sum = zip(one, other).reduce(0) { $0 + (Int($1.0) - Int($1.1)) * (Int($1.0) - Int($1.1)) }
        return Double(sum) / Double(one.count)
    }

    /// 40 dB.
    private static let largestError = 255.0 * 255 / 10_000

    private static let patterns = ["smpte", "snow", "zone-plate kx2=20 ky2=20", "gradient", "colors"]
    private static let colours = ["bt601", "bt709", "1:4:7:1", "1:3:5:1"]

    @Test(arguments: patterns, colours)
    func itIsWithin40DecibelsOfVideoscale(_ pattern: String, _ colours: String) throws {
        let raw = "videotestsrc num-buffers=1 pattern=\(pattern) ! video/x-raw,format=RGBA,framerate=30/1"
        let sent = "video/x-raw,format=I420,width=640,height=352,colorimetry=\(colours),pixel-aspect-ratio=1/1"
        for (width, height, fit) in [(960, 540, Fit.crop), (320, 180, .crop), (1280, 720, .stretch)] {
            let source = "\(raw),width=\(width),height=\(height)"
            let (input, inputInfo) = try frame(source)
            let target = try #require(VideoInfo(caps: try Caps("\(sent),framerate=(fraction)30/1")))
            let placement = try #require(FramePlacement(inputInfo, in: (640, 352), fit: fit))
            let shown = placement.shown
            let (reference, referenceInfo) = try frame(
                "\(source) ! videocrop left=\(shown.x) right=\(shown.x) top=\(shown.y) bottom=\(shown.y) "
                    + "! videoscale add-borders=false ! videoconvert ! \(sent)")
            let scaler = try #require(FrameScaler(inputInfo, to: target, placement))
            let result = try #require(scaler.scaled(input))
            let pairs = zip(try planes(result, target), try planes(reference, referenceInfo))
            for (index, pair) in pairs.enumerated() {
                #expect(error(pair.0, pair.1) < Self.largestError, "plane \(index) of \(width)x\(height)")
            }
            #expect(result.pts == input.pts)
            #expect(result.duration == input.duration)
            #expect(result.isDiscontinuous == input.isDiscontinuous)
        }
    }

    @Test func aLetterboxHasBlackBorders() throws {
        let (input, info) = try frame(
            "videotestsrc num-buffers=1 pattern=white ! video/x-raw,format=BGRx,width=64,height=64")
        let placement = try #require(FramePlacement(info, in: (128, 64), fit: .letterbox))
        #expect(placement.area == .init(x: 32, y: 0, width: 64, height: 64))
        for (colorimetry, black, white) in [("bt601", UInt8(16), UInt8(235)), ("1:4:7:1", 0, 255)] {
            let caps = "video/x-raw,format=I420,width=128,height=64,framerate=(fraction)30/1,colorimetry=\(colorimetry)"
            let target = try #require(VideoInfo(caps: try Caps(caps)))
            let scaler = try #require(FrameScaler(info, to: target, placement))
            // The second frame uses the first one's memory again.
            for _ in 0..<2 {
                let all = try planes(try #require(scaler.scaled(input)), target)
                for y in 0..<64 {
                    for x in 0..<128 {
                        #expect(all[0][y * 128 + x] == ((32..<96).contains(x) ? white : black))
                    }
                }
                #expect(all[1].allSatisfy { $0 == 128 } && all[2].allSatisfy { $0 == 128 })
            }
        }
    }

    @Test func aFrameWithTooLittleMemoryIsRefused() throws {
        let info = try #require(
            VideoInfo(caps: try Caps("video/x-raw,format=RGBA,width=64,height=64,framerate=(fraction)30/1")))
        let target = try #require(
            VideoInfo(caps: try Caps("video/x-raw,format=I420,width=32,height=32,framerate=(fraction)30/1")))
        let placement = try #require(FramePlacement(info, in: (32, 32), fit: .stretch))
        let scaler = try #require(FrameScaler(info, to: target, placement))
        #expect(scaler.scaled(Buffer(size: 64 * 64 * 4 - 1)) == nil)
        #expect(scaler.scaled(Buffer(size: 64 * 64 * 4)) != nil)
    }

    @Test func areasOutsideTheFramesMakeNoScaler() throws {
        let info = try #require(
            VideoInfo(caps: try Caps("video/x-raw,format=RGBA,width=64,height=64,framerate=(fraction)30/1")))
        let target = try #require(
            VideoInfo(caps: try Caps("video/x-raw,format=I420,width=32,height=32,framerate=(fraction)30/1")))
        var placement = try #require(FramePlacement(info, in: (32, 32), fit: .stretch))
        placement.shown.x = 1
        #expect(FrameScaler(info, to: target, placement) == nil)
        placement = try #require(FramePlacement(info, in: (32, 32), fit: .stretch))
        placement.area.y = 2
        #expect(FrameScaler(info, to: target, placement) == nil)
        placement.area = .init(x: -2, y: 0, width: 32, height: 32)
        #expect(FrameScaler(info, to: target, placement) == nil)
    }
}
