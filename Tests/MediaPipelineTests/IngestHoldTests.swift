import MediaPipeline
import Testing
import WebRTCTransport

@Suite struct IngestHoldTests {
    @Test func largeFramesThatComeLater() {
        var hold = IngestHold()
        for number in 0..<60 {
            let isLarge = number.isMultiple(of: 3)
            hold.add(size: isLarge ? 44_000 + number : 14_000 + number, delay: isLarge ? 530 : 400)
            if number < 11 { #expect(hold.value == nil) }
        }
        #expect(hold.value == 130)
        // The service takes them at once now.
        for number in 0..<100 { hold.add(size: number.isMultiple(of: 3) ? 44_000 : 14_000, delay: 400) }
        #expect(hold.value == 0)
    }

    @Test func framesOfOneSizeTellNothing() {
        var hold = IngestHold()
        for number in 0..<60 { hold.add(size: 10_000 + number, delay: Int64(number)) }
        #expect(hold.value == nil)
        for _ in 0..<60 { hold.add(size: 0, delay: 1) }
        #expect(hold.value == nil)
    }

    @Test func aFrameKeepsItsSize() {
        var tracker = FrameTrailerTracker()
        let trailers = (1...3).map { number -> FrameTrailer in
            let unixTime = 1_800_000_000_000_000_000 + UInt64(number) * 1000
            return FrameTrailer(reading: tracker.trailer(time: UInt64(number), unixTime: unixTime) ?? [])
        }
        tracker.encoded(trailers[1], size: 44_000)
        tracker.encoded(FrameTrailer(timestamp: 1, frameID: 9), size: 7)
        tracker.encoded(FrameTrailer(timestamp: 1), size: 7)
        let sizes = trailers.map { tracker.answer($0)?.entry.size }
        #expect(sizes == [0, 44_000, 0])
    }
}
