import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct CapsTests {
    init() { GStreamerRuntime.initialise() }

    @Test func structures() {
        let structure = Structure("application/x-test")
        structure["a"] = GValueBox(int: 1)
        structure["b"] = GValueBox("two")
        structure["c"] = GValueBox(double: 3)
        #expect(structure.name == "application/x-test")
        #expect(structure.fields == ["a", "b", "c"])
        #expect(structure.int("a") == 1 && structure.string("b") == "two" && structure.double("c") == 3)
        #expect(structure["missing"] == nil && structure.int("b") == nil)
        structure["b"] = nil
        #expect(structure.fields == ["a", "c"])
        #expect(Structure(parsing: structure.description)?.int("a") == 1)
        #expect(Structure(parsing: "not a structure at all,,,=") == nil)
        #expect(Structure(parsing: "x, rate=(fraction)30/1")?.fraction("rate") ?? (0, 0) == (30, 1))
        #expect(Structure(parsing: "x, rate=(int)30")?.fraction("rate") == nil)
        let nested = GValueBox(structure: structure).structure
        #expect(nested?.int("a") == 1)
    }

    @Test func caps() throws {
        let caps = try Caps("video/x-raw, width=(int)[1, 4000], height=(int)[1, 4000], framerate=(fraction)[0/1, 60/1]")
        #expect(!caps.isFixed && !caps.isAny && !caps.isEmpty)
        let fixed = try #require(caps.fixated(width: 641, height: 363, framerate: (25, 1)))
        #expect(fixed.isFixed)
        #expect(fixed.first?.int("width") == 641 && fixed.first?.int("height") == 363)
        #expect(fixed.first?.fraction("framerate") ?? (0, 0) == (25, 1))
        #expect(fixed.canIntersect(caps))
        #expect(fixed.intersection(try Caps("audio/x-raw")).isEmpty)
        #expect(try Caps("ANY").isAny)
        #expect(try Caps("ANY").fixated(width: 1, height: 1, framerate: (1, 1)) == nil)
        #expect(try Caps("EMPTY").fixated(width: 1, height: 1, framerate: (1, 1)) == nil)
        #expect(throws: GStreamerError.self) { try Caps("video/x-raw, width=(int") }
        // Numbers beyond GStreamer's range are clamped; a frame rate with a zero denominator is ignored.
        #expect(caps.fixated(width: .max, height: .min, framerate: (.max, 0))?.first?.int("width") == 4000)
        #expect(VideoInfo(caps: try Caps("video/x-raw")) == nil)
    }

    @Test func whatCapsAllow() throws {
        let caps = try Caps(
            "video/x-raw, format=(string){ YUY2, NV12 }, width=(int)[ 16, 640 ], height=(int){ 90, 180 }, "
                + "framerate=(fraction){ 15/1, [ 30/1, 60/1 ] }; image/jpeg, width=(int)80, framerate=(fraction)30000/1001"
        )
        let (raw, jpeg) = (try #require(caps.structures.first), try #require(caps.structures.last))
        #expect(caps.structures.count == 2 && jpeg.name == "image/jpeg")
        #expect(raw.strings("format") == ["YUY2", "NV12"])
        #expect(raw.integers("width") == [16...640] && raw.integers("height") == [90...90, 180...180])
        #expect(raw.fractions("framerate").map(\.lowerBound.description) == ["15/1", "30/1"])
        #expect(raw.fractions("framerate").last?.upperBound == Fraction(60, 1))
        #expect(jpeg.integers("width") == [80...80] && jpeg.integers("height") == [] && jpeg.strings("format") == [])
        #expect(jpeg.fractions("framerate") == [Fraction(30000, 1001)...Fraction(30000, 1001)])
        // The fields have another type.
        #expect(jpeg.integers("framerate") == [] && raw.fractions("width") == [])
    }
}
