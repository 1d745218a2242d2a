import GStreamerKit
import MediaPipeline
import Testing

/// Times in seconds: when a buffer plays, if it waits for the offset and no longer.
@Suite struct SharedOffsetTests {
    private var offset = SharedOffset<String>()

    private mutating func plays(_ track: String, at time: Int, now: Int) -> Int {
        let second: ClockTime = 1_000_000_000
        let offset = offset.offset(for: ClockTime(time) * second, now: ClockTime(now) * second, track: track)
        return max(now, time + Int(offset / Int64(second)))
    }

    @Test mutating func theFirstBufferPlaysNow() {
        #expect(plays("video", at: 0, now: 7) == 7 && plays("video", at: 1, now: 7) == 8)
    }

    /// Whichever track asks first: the one that begins earlier is not rushed, and the other one waits for its time.
    @Test(arguments: [true, false], [3, 8, 12, 15]) mutating func aTrackThatBeginsLateWaits(asksFirst: Bool, lead: Int)
    {
        if asksFirst { #expect(plays("video", at: lead, now: 5) == 5) }
        #expect(plays("audio", at: 0, now: 5) == 5)
        if !asksFirst { #expect(plays("video", at: lead, now: 5) == 5 + lead) }
        #expect(plays("audio", at: 1, now: 5) == 6)
        #expect(plays("video", at: lead + 1, now: 6) == 6 + lead)
    }

    /// Two tracks without a common time line.
    @Test mutating func aTrackOfAnotherTimeLineDoesNotWait() {
        #expect(plays("audio", at: 0, now: 5) == 5 && plays("video", at: 3600, now: 5) == 5)
    }

    @Test mutating func aJumpWithinATrackDoesNotWait() {
        #expect(plays("video", at: 0, now: 5) == 5 && plays("video", at: 300, now: 6) == 6)
    }

    @Test mutating func aSlowTrackIsLateAndMovesNothing() {
        #expect(plays("video", at: 0, now: 5) == 5 && plays("video", at: 1, now: 9) == 9)
        #expect(plays("video", at: 5, now: 9) == 10)
    }
}
