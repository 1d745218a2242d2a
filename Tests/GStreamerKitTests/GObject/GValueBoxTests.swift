import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct GValueBoxTests {
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

    @Test func durationsAndClockTimes() {
        #expect(Duration.seconds(-1).clockTime == 0)
        #expect(Duration.milliseconds(1).clockTime == 1_000_000)
        #expect(Duration.seconds(Int64.max).clockTime == .max)
    }

    @Test func structuresInAnArray() {
        let items = ["one", "two"].map { Structure($0) }
        #expect(GValueBox(structures: items).structures?.map(\.name) == ["one", "two"])
        #expect(GValueBox(structures: []).structures?.isEmpty == true && GValueBox("text").structures == nil)
    }
}
