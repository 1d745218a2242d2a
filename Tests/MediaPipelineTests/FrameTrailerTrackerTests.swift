import MediaPipeline
import Testing
import WebRTCTransport

@Suite struct FrameTrailerTrackerTests {
    private static let base: UInt64 = 1_795_399_078_000_000_000

    private func send(_ tracker: inout FrameTrailerTracker, _ number: UInt64) -> FrameTrailer {
        let time = number * 33_333_333
        let bytes = tracker.trailer(time: time, unixTime: Self.base + time)
        return FrameTrailer(reading: bytes ?? [])
    }

    @Test func framesAreRecognised() throws {
        var tracker = FrameTrailerTracker()
        let sent = (0..<100).map { send(&tracker, $0) }
        #expect(sent.map(\.frameID) == (1...100).map { $0 })
        for (number, trailer) in sent.enumerated().reversed() {
            let first = tracker.answer(trailer)
            let answer = try #require(first)
            #expect(answer.entry.time == UInt64(number) * 33_333_333 && answer.isFirst)
            #expect(answer.entry.unixTime == Self.base + answer.entry.time)
            // The service may make two frames from one.
            let second = tracker.answer(trailer)
            #expect(second?.isFirst == false)
        }
    }

    /// The service's own SDKs send no number, and another participant may count for itself.
    @Test(arguments: [nil, 0, 7, .max] as [UInt32?]) func theTimeIsEnough(number: UInt32?) throws {
        var tracker = FrameTrailerTracker()
        let sent = (0..<1500).map { send(&tracker, $0) }
        for (index, trailer) in sent.enumerated().suffix(1000) {
            let other = FrameTrailer(timestamp: trailer.timestamp, frameID: number)
            let first = tracker.answer(other)
            let second = tracker.answer(other)
            #expect(first?.entry.time == UInt64(index) * 33_333_333 && first?.isFirst == true)
            #expect(second?.isFirst == false)
        }
        let forgotten = tracker.answer(FrameTrailer(timestamp: sent[0].timestamp, frameID: number))
        #expect(forgotten == nil)
    }

    @Test func foreignTrailersAreNot() {
        var tracker = FrameTrailerTracker()
        let before = tracker.answer(FrameTrailer(timestamp: 0, frameID: 0))
        #expect(before == nil)
        let sent = send(&tracker, 5)
        for other in [
            FrameTrailer(timestamp: 7, frameID: sent.frameID), FrameTrailer(timestamp: 7),
            FrameTrailer(frameID: sent.frameID), FrameTrailer(timestamp: 0, frameID: 0), FrameTrailer(timestamp: 0),
            FrameTrailer(timestamp: 0, frameID: 1024), FrameTrailer(timestamp: 0, frameID: .max),
            FrameTrailer(userData: [1]), FrameTrailer(),
        ] {
            let answer = tracker.answer(other)
            #expect(answer == nil, "\(other)")
        }
        let answer = tracker.answer(sent)
        #expect(answer != nil)
    }

    /// After half a minute, a number belongs to another frame.
    @Test func oldFramesAreForgotten() {
        var tracker = FrameTrailerTracker()
        let sent = (0...1500).map { send(&tracker, $0) }
        // Plain values: AddressSanitizer reports the comparison of these optionals inside the test library.
        let isForgotten = tracker.answer(sent[0]) == nil
        let time = tracker.answer(sent[1500])?.entry.time ?? 0
        #expect(isForgotten)
        #expect(time == 1500 * 33_333_333)
    }

    @Test func trailersStopForAServiceThatReturnsNone() {
        var tracker = FrameTrailerTracker()
        let unmarked = (0..<FrameTrailerTracker.maximumUnmarked).map { _ in tracker.frameWithoutTrailer() }
        #expect(unmarked.last == true && unmarked.dropLast().allSatisfy { !$0 })
        tracker = FrameTrailerTracker()
        let delay = tracker.measured(300)
        #expect(delay == 300)
        let later = (0..<100).map { _ in tracker.frameWithoutTrailer() }
        #expect(later.allSatisfy { !$0 })
    }
}
