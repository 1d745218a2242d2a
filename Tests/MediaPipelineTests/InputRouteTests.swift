import GStreamerKit
import MediaPipeline
import Testing

/// The way of an input frame by its caps, and where it lies in the sent frame.
@Suite(.timeLimit(.minutes(1))) struct InputRouteTests {
    init() { GStreamerRuntime.initialise() }

    private func route(
        _ caps: String, target: (width: Int, height: Int) = (1280, 704), fit: Fit = .crop,
        rotation: ImageRotation = .none, scalerIsFast: Bool = true
    ) throws -> InputRoute {
        let caps = try Caps("video/x-raw, framerate=(fraction)30/1, \(caps)")
        let info = try #require(VideoInfo(caps: caps))
        return InputRoute(caps, info, target: target, fit: fit, rotation: rotation, scalerIsFast: scalerIsFast)
    }

    @Test func aFrameThatIsRightStaysAsItIs() throws {
        let right = "format=I420, width=1280, height=704, colorimetry=bt601"
        #expect(try route(right) == .unchanged)
        #expect(try route(right + ", pixel-aspect-ratio=(fraction)1/1") == .unchanged)
        #expect(try route(right, scalerIsFast: false) == .unchanged)
        for other in [
            "format=I420, width=1280, height=720, colorimetry=bt601",
            "format=I420, width=1280, height=704, colorimetry=bt709",
            "format=I420, width=1280, height=704, colorimetry=1:4:0:0", "format=I420, width=1280, height=704",
            "format=NV12, width=1280, height=704, colorimetry=bt601",
            right + ", pixel-aspect-ratio=(fraction)4/3", right + ", interlace-mode=interleaved",
        ] {
            #expect(try route(other) == .elements, "\(other)")
        }
        #expect(try route(right, rotation: .right) == .elements)
    }

    @Test(arguments: ["RGBA", "RGBx", "BGRA", "BGRx", "ARGB", "xRGB", "ABGR", "xBGR"])
    func packedRGBIsScaledHere(_ format: String) throws {
        let caps = "format=\(format), width=1920, height=1080"
        let shown = FramePlacement.Area(x: 0, y: 12, width: 1920, height: 1056)
        guard case .scaler(let placement) = try route(caps) else {
            Issue.record("\(format) goes elsewhere")
            return
        }
        #expect(placement.shown == shown)
        #expect(placement.area == .init(width: 1280, height: 704))
        #expect(try route(caps, rotation: .right) == .elements)
        #expect(try route(caps, target: (1279, 704)) == .elements)
        #expect(try route(caps, scalerIsFast: false) == .elements)
        #expect(try route(caps + ", interlace-mode=interleaved") == .elements)
        #expect(try route(caps + ", colorimetry=2:1:0:0") == .elements)
    }

    @Test(arguments: ["RGB", "BGR", "RGB16", "GRAY8", "YUY2", "NV12", "I420_10LE", "RGB10A2_LE", "AYUV"])
    func otherFormatsTakeTheElements(_ format: String) throws {
        #expect(try route("format=\(format), width=1920, height=1080") == .elements)
    }

    private func placement(_ caps: String, in target: (width: Int, height: Int), _ fit: Fit) throws -> FramePlacement? {
        let caps = try Caps("video/x-raw, format=RGBA, framerate=(fraction)30/1, \(caps)")
        return FramePlacement(try #require(VideoInfo(caps: caps)), in: target, fit: fit)
    }

    @Test func cropCutsTheLongerSide() throws {
        let wide = try #require(try placement("width=1000, height=500", in: (300, 300), .crop))
        #expect(wide.shown == .init(x: 250, y: 0, width: 500, height: 500))
        let high = try #require(try placement("width=500, height=1000", in: (300, 300), .crop))
        #expect(high.shown == .init(x: 0, y: 250, width: 500, height: 500))
        #expect(high.area == .init(width: 300, height: 300))
        // Pixels twice as wide as high: 500 columns are as wide as 1000 rows are high.
        let pixels = try #require(
            try placement("width=500, height=1000, pixel-aspect-ratio=(fraction)2/1", in: (300, 300), .crop))
        #expect(pixels.shown == .init(width: 500, height: 1000))
    }

    @Test func letterboxShowsTheWholeFrame() throws {
        let wide = try #require(try placement("width=1000, height=500", in: (300, 300), .letterbox))
        #expect(wide.shown == .init(width: 1000, height: 500))
        #expect(wide.area == .init(x: 0, y: 74, width: 300, height: 150))
        let high = try #require(try placement("width=500, height=1000", in: (300, 300), .letterbox))
        #expect(high.area == .init(x: 74, y: 0, width: 150, height: 300))
        let same = try #require(try placement("width=600, height=600", in: (300, 300), .letterbox))
        #expect(same.area == .init(width: 300, height: 300))
        let line = try #require(try placement("width=8000, height=1", in: (300, 300), .letterbox))
        #expect(line.area.height == 2)
    }

    @Test func stretchFills() throws {
        let placement = try #require(try placement("width=1000, height=500", in: (300, 302), .stretch))
        #expect(placement.shown == .init(width: 1000, height: 500))
        #expect(placement.area == .init(width: 300, height: 302))
    }

    @Test func oddOrEmptyTargetHasNoPlacement() throws {
        #expect(try placement("width=10, height=10", in: (301, 300), .crop) == nil)
        #expect(try placement("width=10, height=10", in: (0, 300), .crop) == nil)
    }
}
