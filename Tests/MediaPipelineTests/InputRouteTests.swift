import GStreamerKit
import MediaPipeline
import Testing

/// The way of an input frame by its caps, and where it lies in the sent frame.
@Suite(.timeLimit(.minutes(1))) struct InputRouteTests {
    init() { GStreamerRuntime.initialise() }

    private func route(
        _ caps: String, target: (width: Int, height: Int) = (1280, 704), fit: Fit = .crop,
        rotation: ImageRotation = .none
    ) throws -> InputRoute {
        let caps = try Caps("video/x-raw, framerate=(fraction)30/1, \(caps)")
        let info = try #require(VideoInfo(caps: caps))
        return InputRoute(caps, info, target: target, fit: fit, rotation: rotation)
    }

    @Test func aFrameThatIsRightStaysAsItIs() throws {
        let right = "format=I420, width=1280, height=704, colorimetry=bt601"
        #expect(try route(right) == .unchanged)
        #expect(try route(right + ", pixel-aspect-ratio=(fraction)1/1") == .unchanged)
        for other in [
            "format=I420, width=1280, height=720, colorimetry=bt601",
            "format=I420, width=1280, height=704, colorimetry=bt709",
            "format=I420, width=1280, height=704, colorimetry=1:4:0:0", "format=I420, width=1280, height=704",
            "format=NV12, width=1280, height=704, colorimetry=bt601", right + ", pixel-aspect-ratio=(fraction)4/3",
        ] {
            #expect(try isScaled(try route(other)), "\(other)")
        }
        #expect(try route(right, rotation: .right) == .elements)
        #expect(try route(right + ", interlace-mode=interleaved") == .elements)
    }

    private func isScaled(_ route: InputRoute) throws -> Bool {
        if case .scaler = route { true } else { false }
    }

    @Test(arguments: ["RGB", "RGBA", "xBGR", "I420", "NV12", "YUY2", "UYVY", "Y42B", "P010_10LE"])
    func cameraFormatsAreScaledHere(_ format: String) throws {
        let caps = "format=\(format), width=1920, height=1080"
        guard case .scaler(let placement) = try route(caps) else {
            Issue.record("\(format) goes elsewhere")
            return
        }
        #expect(placement.shown == .init(x: 0, y: 12, width: 1920, height: 1056))
        #expect(placement.area == .init(width: 1280, height: 704))
        #expect(try route(caps, rotation: .right) == .elements)
        #expect(try route(caps, target: (1279, 704)) == .elements)
        #expect(try route(caps + ", interlace-mode=interleaved") == .elements)
    }

    @Test(arguments: ["RGB16", "GRAY8", "RGB10A2_LE", "AYUV", "v210", "Y41B", "I420_10BE"])
    func otherFormatsTakeTheElements(_ format: String) throws {
        #expect(try route("format=\(format), width=1920, height=1080") == .elements)
        #expect(try route("format=RGB, width=1920, height=1080, colorimetry=2:1:0:0") == .elements)
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
