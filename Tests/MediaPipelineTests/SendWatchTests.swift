import MediaPipeline
import Testing

@Suite struct SendWatchTests {
    /// Adds a reading for each second of `seconds` and returns what was reported, by second.
    private func run(
        _ watch: inout SendWatch, _ seconds: ClosedRange<UInt64>, _ set: (UInt64, inout SendWatch.Reading) -> Void
    ) -> [UInt64: SendWatch.Stall] {
        var found: [UInt64: SendWatch.Stall] = [:]
        for second in seconds {
            var reading = SendWatch.Reading()
            (reading.framesIn, reading.isConnected) = (25 * second, true)
            set(second, &reading)
            found[second] = watch.add(reading)
        }
        return found
    }

    @Test func anInputThatIsSentIsNoStall() {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { second, reading in
            (reading.framesSent, reading.framesEncoded) = (25 * second, 25 * second)
        }
        #expect(found.isEmpty && watch.stall == nil)
    }

    @Test func anEncoderThatReturnsNothingIsNamedOnce() {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { second, reading in reading.framesSent = 25 * second }
        #expect(found == [5: .encoder] && watch.stall == .encoder)
    }

    @Test func aStreamWithoutKeyframeIsNamedBeforeAndWithinASession() {
        var watch = SendWatch()
        var found = run(&watch, 0...7) { _, reading in
            (reading.isEncodedInput, reading.isConnected) = (true, false)
        }
        #expect(found == [5: .noKeyframe])
        found = run(&watch, 8...9) { second, reading in
            (reading.isEncodedInput, reading.hasKeyframe, reading.framesSent) = (true, true, 25 * second)
        }
        #expect(found.isEmpty && watch.stall == nil)
        found = run(&watch, 10...17) { second, reading in
            (reading.isEncodedInput, reading.hasKeyframe) = (true, true)
            (reading.framesSent, reading.droppedToKeyframe) = (225, 25 * second)
        }
        #expect(found == [14: .noKeyframe] || found == [15: .noKeyframe])
    }

    /// Receivers of WebRTC begin to decode with an IDR, so that a recovery point would not help.
    @Test func theSentenceNamesStreamsWithoutIDR() {
        let sentence = SendWatch.Stall.noKeyframe.sentence
        #expect(sentence.contains("IDR, which intra refresh and open GOPs lack"))
    }

    @Test func aWithheldOrPausedInputIsNoStall() {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { _, reading in reading.framesIn = 100 }
        #expect(found.isEmpty)
    }

    @Test(arguments: [(true, true, SendWatch.Stall.noVideo), (true, false, .unlinked), (false, true, .noFrames)])
    func anInputThatNeverComesIsNamed(awaits: Bool, isLinked: Bool, stall: SendWatch.Stall) {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { _, reading in
            (reading.framesIn, reading.isDue, reading.awaitsInput, reading.isLinked) = (0, true, awaits, isLinked)
            reading.isConnected = !awaits
        }
        #expect(found == [5: stall] && watch.stall == stall)
    }

    @Test func aCameraThatStopsIsAStallUntilItGoesOn() {
        var watch = SendWatch()
        var found = run(&watch, 0...20) { second, reading in
            reading.isDue = true
            (reading.framesIn, reading.framesSent) = (25 * min(second, 8), 25 * min(second, 8))
            reading.framesEncoded = reading.framesSent
        }
        #expect(found == [13: .noFrames] && watch.stall == .noFrames)
        found = run(&watch, 21...22) { second, reading in
            (reading.isDue, reading.framesSent, reading.framesEncoded) = (true, 25 * second, 25 * second)
        }
        #expect(found.isEmpty && watch.stall == nil)
    }

    /// With `latency=10000`, a sink holds the first frame for ten seconds.
    @Test(arguments: [(0, 5), (10, 15)] as [(Int, UInt64)])
    func aBranchThatTakesNothingIsNamed(latency: Int, reported: UInt64) {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { second, reading in
            reading.latency = .seconds(latency)
            (reading.isDue, reading.framesSent, reading.framesEncoded) = (true, 25 * second, 25 * second)
            (reading.framesReceived, reading.framesOut) = (25 * second, 7)
        }
        #expect(found == [reported: .downstream])
    }

    /// Returns what was reported when the changes are those of `sent` and `received` in each second.
    private func report(sent: UInt64, received: UInt64, looks: Bool = true) -> [UInt64: SendWatch.Stall] {
        var watch = SendWatch()
        return run(&watch, 0...20) { second, reading in
            (reading.isDue, reading.framesSent, reading.framesEncoded) = (true, 25 * second, 25 * second)
            (reading.framesReceived, reading.framesOut) = (25 * second, 25 * second)
            (reading.sent.frames, reading.sent.changes) = (4 * second, sent * second)
            (reading.received.frames, reading.received.changes) = (looks ? 4 * second : 0, received * second)
        }
    }

    @Test func aServiceThatRepeatsAFrameIsNamedIfTheInputMoves() {
        #expect(report(sent: 4, received: 0) == [5: .repeatedFrame])
        #expect(report(sent: 4, received: 1).isEmpty)
        #expect(report(sent: 0, received: 0).isEmpty, "a still input")
        #expect(report(sent: 4, received: 0, looks: false).isEmpty, "frames that cannot be read")
    }

    @Test func nothingIsDueInPauseOrWhileMuted() {
        var watch = SendWatch()
        let found = run(&watch, 0...20) { _, reading in (reading.framesIn, reading.awaitsInput) = (0, true) }
        #expect(found.isEmpty && watch.stall == nil)
    }
}
