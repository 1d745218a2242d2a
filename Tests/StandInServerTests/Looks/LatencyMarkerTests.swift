import DecartProtocol
import StandInServer
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct LatencyMarkerTests {
    @Test func layoutIsTheProtocols() throws {
        let frame = TestFrame.flat(120, width: 320, height: 64)
        #expect(try frame.withLuma { LatencyMarker.stamp(0x1234, onto: $0) })
        // Sync 1010, then 0001 0010 0011 0100, then the checksum 1 ^ 2 ^ 3 ^ 4 = 4 = 0100.
        let expected = "1010" + "0001001000110100" + "0100"
        let luma = frame.planes[0]
        for y in 0..<64 {
            for x in 0..<320 {
                let inside = y >= 32 && x < 192
                let bit = inside ? Array(expected)[x / 8] : "-"
                #expect(luma[y * 320 + x] == (bit == "1" ? 200 : bit == "0" ? 50 : 120))
            }
        }
    }

    @Test func everyNumberComesBack() throws {
        let frame = TestFrame.flat(120, width: 192, height: 32)
        try frame.withLuma { luma in
            for number in stride(from: UInt16(0), through: .max, by: 257) {
                LatencyMarker.stamp(number, onto: luma)
                #expect(LatencyMarker.find(in: luma)?.number == number)
            }
        }
    }

    @Test(arguments: [(1, 2), (2, 1), (2, 4), (3, 4), (3, 2), (2, 2)])
    func aScaledFrameIsStillReadable(numerator: Int, denominator: Int) throws {
        let original = TestFrame.gradient(width: 640, height: 352)
        try original.withLuma { LatencyMarker.stamp(0xbeef, onto: $0) }
        let luma = original.planes[0]
        let scaled = TestFrame(width: 640 * numerator / denominator, height: 352 * numerator / denominator)
        scaled.fill(
            luma: { x, y in Int(luma[y * denominator / numerator * 640 + x * denominator / numerator]) },
            blue: { _, _ in 128 }, red: { _, _ in 128 })
        #expect(try scaled.withLuma { LatencyMarker.find(in: $0)?.number } == 0xbeef)
    }

    @Test func noiseDoesNotHideTheNumber() throws {
        let frame = TestFrame.gradient()
        try frame.withLuma { LatencyMarker.stamp(0xa55a, onto: $0) }
        let luma = frame.planes[0]
        var seed: UInt64 = 42
        func noise() -> Int {
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(seed >> 33) % 101 - 50
        }
        let width = frame.width
        frame.fill(luma: { x, y in Int(luma[y * width + x]) + noise() }, blue: { _, _ in 128 }, red: { _, _ in 128 })
        #expect(try frame.withLuma { LatencyMarker.find(in: $0)?.number } == 0xa55a)
    }

    @Test func oneSpoiltRowIsOutvoted() throws {
        let frame = TestFrame.flat(120, width: 320, height: 64)
        try frame.withLuma { LatencyMarker.stamp(0x0f0f, onto: $0) }
        let luma = frame.planes[0]
        // Row 1 of the blocks: data inverted, sync unchanged.
        frame.fill(
            luma: { x, y in
                let value = Int(luma[y * 320 + x])
                return (40..<48).contains(y) && (32..<192).contains(x) ? 250 - value : value
            }, blue: { _, _ in 128 }, red: { _, _ in 128 })
        #expect(try frame.withLuma { LatencyMarker.find(in: $0)?.number } == 0x0f0f)
    }

    @Test func nothingIsReadWhereNothingWasStamped() throws {
        #expect(try TestFrame.gradient().withLuma { LatencyMarker.find(in: $0)?.number } == nil)
        #expect(try TestFrame.flat(200).withLuma { LatencyMarker.find(in: $0)?.number } == nil)
        let frame = TestFrame.flat(120, width: 192, height: 32)
        try frame.withLuma { LatencyMarker.stamp(7, onto: $0) }
        let luma = frame.planes[0]
        // One data column is inverted in all rows, so the checksum fails.
        frame.fill(
            luma: { x, y in (64..<72).contains(x) ? 250 - Int(luma[y * 192 + x]) : Int(luma[y * 192 + x]) },
            blue: { _, _ in 128 }, red: { _, _ in 128 })
        #expect(try frame.withLuma { LatencyMarker.find(in: $0)?.number } == nil)
    }

    @Test func aSmallFrameIsLeftAlone() throws {
        let frame = TestFrame.flat(120, width: 191, height: 32)
        #expect(try !frame.withLuma { LatencyMarker.stamp(1, onto: $0) })
        #expect(Set(frame.planes[0]) == [120])
    }
}
