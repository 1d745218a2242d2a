import MediaPipeline
import Testing

@Suite struct KeptFramesTests {
    /// Appends frames of one size.
    /// - Returns: those for which there is room.
    private func append(_ frames: Range<Int>, bytes: Int, to kept: inout KeptFrames<Int>) -> [Int] {
        frames.filter { kept.append($0, bytes: bytes) }
    }

    @Test func framesLeaveInTheirOrder() {
        var kept = KeptFrames<Int>()
        _ = append(1..<3, bytes: 10, to: &kept)
        var left = [kept.takeFirst()]
        kept.putBack(1, bytes: 10)
        #expect(kept.count == 2)
        for _ in 0..<3 { left.append(kept.takeFirst()) }
        #expect(left == [1, 1, 2, nil])
    }

    @Test func thereIsRoomForSixteen() {
        var kept = KeptFrames<Int>()
        let first = append(0..<20, bytes: 1_000_000, to: &kept)
        _ = kept.takeFirst()
        let then = append(20..<22, bytes: 1, to: &kept)
        #expect(first == Array(0..<16) && then == [20])
    }

    @Test func largeFramesAreFewer() {
        var kept = KeptFrames<Int>()
        let first = append(0..<4, bytes: 25_000_000, to: &kept)
        _ = kept.takeFirst()
        let then = append(4..<6, bytes: 25_000_000, to: &kept)
        let huge = append(6..<7, bytes: .max, to: &kept)
        #expect(first == [0, 1] && then == [4] && huge == [])
    }
}
