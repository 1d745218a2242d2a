import DecartProtocol
import StandInServer
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct LookTests {
    static let prompts = ["Lego World", "anime street", "CYBERPUNK city", "film noir", "a garden", "oil painting"]

    @Test(arguments: [
        ("Lego World", Look.Style.mosaic), ("An ANIME girl", .posterised), ("cyberpunk", .neon), ("Film Noir", .grey),
        ("a cyberpunk city of lego", .mosaic),
    ])
    func aWordChoosesItsStyle(prompt: String, style: Look.Style) {
        #expect(Look(prompt: prompt, imageHash: nil) == Look(style: style))
    }

    @Test func anyOtherPromptTurnsTheHueByItsHash() {
        #expect(StableHash.fnv1a("a".utf8) == 0xaf63_dc4c_8601_ec8c)  // From the FNV test vectors.
        let degrees = 60 + Int(StableHash.fnv1a("a garden".utf8) % 241)
        #expect(Look(prompt: "a garden", imageHash: nil).style == .hue(degrees: degrees))
        #expect(Look(prompt: "A garden", imageHash: nil).style != Look(prompt: "a garden", imageHash: nil).style)
        for index in 0..<2000 {
            guard case .hue(let degrees) = Look(prompt: "prompt \(index)", imageHash: nil).style else {
                Issue.record("prompt \(index) chose a word's style")
                continue
            }
            #expect((60...300).contains(degrees))
        }
    }

    @Test func noPromptAndNoImageLeaveEveryPixelAlone() throws {
        for prompt in [nil, ""] {
            let testFrame = TestFrame.gradient()
            let before = testFrame.planes
            try testFrame.withFrame { Look(prompt: prompt, imageHash: nil).apply(to: $0) }
            #expect(testFrame.planes == before)
        }
    }

    @Test func everyLookDiffersFromTheInputAndFromEveryOther() throws {
        let input = TestFrame.gradient().planes
        var results = [(name: "input", planes: input)]
        for prompt in Self.prompts {
            for image in [nil, StableHash.fnv1a([1, 2, 3])] {
                let testFrame = TestFrame.gradient()
                try testFrame.withFrame { Look(prompt: prompt, imageHash: image).apply(to: $0) }
                results.append(("\(prompt), image \(image != nil)", testFrame.planes))
            }
        }
        for (index, one) in results.enumerated() {
            for other in results[(index + 1)...] {
                #expect(difference(one.planes, other.planes) > 8, "\(one.name) looks like \(other.name)")
            }
        }
    }

    @Test(arguments: prompts)
    func aLookShowsOnAFlatGreyFrameToo(prompt: String) throws {
        for luma in [60, 100, 126, 180] {
            let testFrame = TestFrame.flat(luma)
            let before = testFrame.planes
            try testFrame.withFrame { Look(prompt: prompt, imageHash: nil).apply(to: $0) }
            #expect(difference(testFrame.planes, before) > 5, "luma \(luma)")
        }
    }

    @Test(arguments: prompts, [(80, 48), (17, 33), (1, 1), (2, 15), (16, 16)])
    func samplesStayInLimitedRangeAndInsideTheRows(prompt: String, size: (Int, Int)) throws {
        let testFrame = TestFrame(width: size.0, height: size.1)
        // Full-range extremes are the worst input.
        testFrame.fill(
            luma: { x, y in (x + y) % 3 == 0 ? 0 : 255 }, blue: { x, _ in x % 2 == 0 ? 0 : 255 },
            red: { _, y in y % 2 == 0 ? 255 : 0 })
        let before = testFrame.planes
        let look = Look(prompt: prompt, imageHash: 77)
        try testFrame.withFrame { look.apply(to: $0) }
        let planes = testFrame.planes
        if case .hue = look.style {
            #expect(planes[0] == before[0])
        } else {
            #expect(planes[0].allSatisfy { (16...235).contains($0) })
        }
        #expect(planes[1].allSatisfy { (16...240).contains($0) })
        #expect(planes[2].allSatisfy { (16...240).contains($0) })
        #expect(testFrame.isPaddingUntouched)
    }

    @Test func theSamePromptGivesTheSamePixels() throws {
        for prompt in Self.prompts {
            let one = TestFrame.gradient()
            let other = TestFrame.gradient()
            try one.withFrame { Look(prompt: prompt, imageHash: 5).apply(to: $0) }
            try other.withFrame { Look(prompt: prompt, imageHash: 5).apply(to: $0) }
            #expect(one.planes == other.planes)
        }
    }

    @Test func mosaicIsMadeOfEvenBricks() throws {
        let testFrame = TestFrame.gradient()
        let before = testFrame.planes[0]
        try testFrame.withFrame { Look(style: .mosaic).apply(to: $0) }
        let luma = testFrame.planes[0]
        // The inside of the second brick in the second row has one value, the mean of the original.
        var inside = Set<UInt8>()
        var sum = 0
        for y in 16..<32 {
            for x in 16..<32 {
                sum += Int(before[y * testFrame.width + x])
                if (17..<31).contains(x), (17..<31).contains(y) { inside.insert(luma[y * testFrame.width + x]) }
            }
        }
        #expect(inside == [UInt8(sum / 256)])
    }

    @Test func posterisedHasFewLevels() throws {
        let testFrame = TestFrame.gradient()
        try testFrame.withFrame { Look(style: .posterised).apply(to: $0) }
        #expect(Set(testFrame.planes[0]).count == 5)
        #expect(Set(testFrame.planes[1]).count <= 5)
    }

    @Test func neonInvertsAndLightsEdges() throws {
        let testFrame = TestFrame(width: 64, height: 64)
        testFrame.fill(luma: { x, _ in x < 32 ? 40 : 200 }, blue: { _, _ in 100 }, red: { _, _ in 150 })
        try testFrame.withFrame { Look(style: .neon).apply(to: $0) }
        let row = Array(testFrame.planes[0][..<64])
        #expect(row[10] > row[50])
        #expect(row[31] == 235)
    }

    @Test func greyHasNoColour() throws {
        let testFrame = TestFrame.gradient()
        try testFrame.withFrame { Look(style: .grey).apply(to: $0) }
        #expect(Set(testFrame.planes[1]) == [128])
        #expect(Set(testFrame.planes[2]) == [128])
    }

    @Test func hueTurnsColoursAndKeepsLuma() throws {
        let testFrame = TestFrame.flat(100)
        testFrame.fill(luma: { _, _ in 100 }, blue: { _, _ in 168 }, red: { _, _ in 128 })
        try testFrame.withFrame { Look(style: .hue(degrees: 90)).apply(to: $0) }
        #expect(Set(testFrame.planes[0]) == [100])
        // (40, 0) rotated by 90° is (0, 40); the tint adds 20 in the same direction.
        #expect(testFrame.planes[1].allSatisfy { abs(Int($0) - 128) <= 1 })
        #expect(testFrame.planes[2].allSatisfy { abs(Int($0) - 188) <= 1 })
    }

    @Test func anImageTintsByItsBytes() throws {
        var tints = Set<[Int]>()
        for byte in UInt8(0)..<64 {
            let tint = try #require(Look(prompt: nil, imageHash: StableHash.fnv1a([byte])).tint)
            #expect(max(abs(tint.blue), abs(tint.red)) == 32)
            tints.insert([tint.blue, tint.red])
        }
        #expect(tints.count > 8)
        let testFrame = TestFrame.flat(100)
        let look = Look(prompt: nil, imageHash: 3)
        try testFrame.withFrame { look.apply(to: $0) }
        #expect(Set(testFrame.planes[1]) == [UInt8(128 + (look.tint?.blue ?? 0))])
        #expect(Set(testFrame.planes[0]) == [100])
    }

    @Test func planesWithoutSamplesOrWithShortRowsAreRefused() throws {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 100, alignment: 1)
        defer { memory.deallocate() }
        let base = try #require(memory.baseAddress)
        #expect(BytePlane(base: base, stride: 10, width: 10, height: 10) != nil)
        #expect(BytePlane(base: base, stride: 12, width: 4, height: 8) != nil)
        #expect(BytePlane(base: base, stride: 9, width: 10, height: 2) == nil)
        #expect(BytePlane(base: base, stride: -10, width: 10, height: 2) == nil)
        #expect(BytePlane(base: base, stride: 10, width: 0, height: 1) == nil)
        #expect(BytePlane(base: base, stride: 10, width: 1, height: 0) == nil)
    }
}
