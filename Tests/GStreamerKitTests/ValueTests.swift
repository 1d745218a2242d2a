import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ValueTests {
    init() { GStreamerRuntime.initialise() }

    @Test func valuesComeBackAsTheyWere() {
        #expect(GValueBox("text").string == "text")
        #expect(GValueBox(nil as String?).string == nil)
        #expect(GValueBox(true).bool == true && GValueBox(false).bool == false)
        #expect(GValueBox(int: -5).int == -5)
        #expect(GValueBox(uint: 5).int == 5)
        #expect(GValueBox(int64: Int.min).int == Int.min)
        #expect(GValueBox(double: 1.5).double == 1.5)
        #expect(GValueBox(strings: ["a", "", "c"]).strings == ["a", "", "c"])
        #expect(GValueBox(strings: []).strings == [])
    }

    @Test func valuesThatDoNotFit() {
        #expect(GValueBox(int: .max).int == Int(Int32.max))
        #expect(GValueBox(int: .min).int == Int(Int32.min))
        #expect(GValueBox(uint: -1).int == 0)
        #expect(GValueBox(uint: .max).int == Int(UInt32.max))
        #expect(GValueBox(uint64: .max).int == nil)
        #expect(GValueBox(int: 1).bool == nil && GValueBox("1").int == nil && GValueBox(int: 1).double == nil)
        #expect(GValueBox(int: 1).structure == nil && GValueBox(int: 1).caps == nil && GValueBox(int: 1).object == nil)
        #expect(GValueBox(int: 1).strings == nil && GValueBox(int: 1).buffer == nil && GValueBox(int: 1).pad == nil)
        #expect(GValueBox(int: 12).string == "12")
        #expect(GValueBox(enumeration: "NoSuchType", 3).int == 3)
    }

    @Test func objectsKeepTheirKind() throws {
        let element = try Element(factory: "fakesink", name: "it")
        let box = GValueBox(object: element)
        #expect(box.element?.name == "it")
        #expect(box.pad == nil)
        #expect(element.staticPad("sink").map { GValueBox(object: $0) }?.pad?.name == "sink")
        #expect(throws: GStreamerError.self) { try Element(factory: "no-such-element") }
    }

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

    @Test func buffers() throws {
        let buffer = [1, 2, 3, 4].withUnsafeBytes { _ in [9, 8, 7 as UInt8].withUnsafeBytes { Buffer(copying: $0) } }
        #expect(buffer.size == 3)
        #expect(buffer.withBytes { Array($0) } == [9, 8, 7])
        #expect(buffer.pts == nil)
        buffer.pts = 5
        buffer.isDiscontinuous = true
        #expect(buffer.pts == 5 && buffer.isDiscontinuous && !buffer.isDeltaUnit)
        let copy = try #require(buffer.copyOfMetadata())
        copy.pts = nil
        #expect(buffer.pts == 5 && copy.pts == nil && copy.size == 3)
        #expect(Buffer(size: -1).size == 0)
        let info = try #require(VideoInfo(caps: Caps("video/x-raw,format=I420,width=33,height=17,framerate=30/1")))
        let black = try #require(Buffer.blackI420(info))
        #expect(black.withVideoPlanes(info, writable: false) { $0.count } == 3)
        // The buffer is too small for the frame size in the caps.
        #expect(buffer.withVideoPlanes(info, writable: false) { $0.count } == nil)
    }

    @Test func durationsAndClockTimes() {
        #expect(Duration.seconds(-1).clockTime == 0)
        #expect(Duration.milliseconds(1).clockTime == 1_000_000)
        #expect(Duration.seconds(Int64.max).clockTime == .max)
    }

    @Test func descriptionsOfPipelines() {
        #expect(throws: GStreamerError.self) { try Pipeline(description: "no-such-element ! fakesink") }
        #expect(throws: GStreamerError.self) { try Pipeline(description: "fakesink") }
        #expect(throws: GStreamerError.self) { try Pipeline(description: "") }
        #expect(throws: GStreamerError.self) { try Bin(description: "fakesrc ! ! fakesink", ghostUnlinkedPads: true) }
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

    @Test func structuresInAnArray() {
        let items = ["one", "two"].map { Structure($0) }
        #expect(GValueBox(structures: items).structures?.map(\.name) == ["one", "two"])
        #expect(GValueBox(structures: []).structures?.isEmpty == true && GValueBox("text").structures == nil)
    }
}
