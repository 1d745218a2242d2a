import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ElementWrapperTests {
    init() { GStreamerRuntime.initialise() }

    @Test func objectsKeepTheirKind() throws {
        let element = try Element(factory: "fakesink", name: "it")
        let box = GValueBox(object: element)
        #expect(box.element?.name == "it")
        #expect(box.pad == nil)
        #expect(element.staticPad("sink").map { GValueBox(object: $0) }?.pad?.name == "sink")
        #expect(throws: GStreamerError.self) { try Element(factory: "no-such-element") }
    }

    @Test func aHiddenPropertyIsSetAndCannotBeRead() throws {
        for _ in 1...2 {
            let source = try Element(factory: "filesrc", typeName: "GstDecartHiddenTest", hiding: ["location"])
            let bin = Bin()
            bin.add(source)
            defer { bin.setState(.null) }
            source.set("location", GValueBox("/proc/self/status"))
            #expect(source.value("location") == nil && source.value("blocksize") != nil)
            #expect(
                !bin.dotDescription().contains("/proc/self") && bin.dotDescription().contains("GstDecartHiddenTest"))
            #expect(source.setState(.paused) != .failure)
            #expect(!bin.dotDescription().contains("/proc/self"))
        }
        #expect(throws: GStreamerError.self) {
            try Element(factory: "no-such-element", typeName: "GstDecartHiddenNone", hiding: [])
        }
    }

    @Test func descriptionsOfPipelines() {
        #expect(throws: GStreamerError.self) { try Pipeline(description: "no-such-element ! fakesink") }
        #expect(throws: GStreamerError.self) { try Pipeline(description: "fakesink") }
        #expect(throws: GStreamerError.self) { try Pipeline(description: "") }
        #expect(throws: GStreamerError.self) { try Bin(description: "fakesrc ! ! fakesink", ghostUnlinkedPads: true) }
    }
}
