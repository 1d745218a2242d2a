import GStreamerKit
import MediaPipeline
import RTP
import Testing
import WebRTCTransport

/// Tests on virtual time with numbers for frames; no element, no clock. Times are in ms.
@Suite struct OutputSchedulerTests {
    private static let ms: ClockTime = 1_000_000

    /// Downstream takes what the service sends: 20 frames a second; `latency` is 40 ms, and 50 are reported. A gap is filled
    /// 85 ms after a frame was due: `latency` and an interval, of which 45 ms count.
    private struct Output {
        var scheduler: OutputScheduler<Int>
        private var now: ClockTime = 0

        init(_ change: (inout OutputConfiguration) -> Void = { _ in }) {
            var configuration = OutputConfiguration()
            configuration.preferred = OutputFormat(width: 640, height: 352, framerate: (20, 1))
            configuration.latency = 40 * OutputSchedulerTests.ms
            change(&configuration)
            scheduler = OutputScheduler(configuration)
            scheduler.isActive = true
            scheduler.isPlaying = true
        }

        /// Negotiates what downstream fixes; nil: what the scheduler prefers.
        mutating func negotiated(_ framerate: (Int, Int)? = nil) -> Output {
            var format = scheduler.beginNegotiation()
            if let framerate { format.framerate = framerate }
            _ = scheduler.setFormat(format)
            return self
        }

        mutating func frame(
            _ number: Int, at time: ClockTime, path: PathID = 1, width: Int = 640, isDelta: Bool = false,
            now: ClockTime? = nil
        ) {
            let format = OutputFormat(width: width, height: 352, framerate: (0, 1))
            scheduler.enqueue(
                number, arrival: time * ms, format: format, path: path, isDelta: isDelta,
                now: now.map { $0 * ms })
        }

        mutating func next(_ now: ClockTime = 0, mayFill: Bool = true) -> String {
            switch scheduler.next(now: now * ms, mayFill: mayFill) {
            case .wait(nil): "wait"
            case .wait(let time?): "wait \(time / ms)"
            case .stop: "stop"
            case .negotiate: "negotiate"
            case .segment: "segment"
            case .changeFormat(let format): "\(format.width)x\(format.height)"
            case .push(.frame(let number), let stamp): "\(number)" + text(stamp)
            case .push(.black, let stamp): "black" + text(stamp)
            case .gap(let time, let duration): "gap at \(time / ms) for \(duration / ms)"
            case .endOfStream: "EOS"
            }
        }

        /// From 1 s on, each 2 ms late.
        mutating func showHundredFrames() {
            for number in 0..<100 {
                let media = 1000 + ClockTime(number) * 50
                frame(number, at: media, now: media + 2)
                _ = next(media + 2)
            }
        }

        private func text(_ stamp: OutputScheduler<Int>.Stamp) -> String {
            " at \(stamp.time / ms)" + (stamp.isDiscontinuous ? " discont" : "")
        }

        private var ms: ClockTime { OutputSchedulerTests.ms }
    }

    private func output(_ change: (inout OutputConfiguration) -> Void = { _ in }) -> Output {
        var output = Output(change)
        return output.negotiated()
    }

    @Test func negotiatesBeforeTheFirstFrame() {
        var output = Output()
        #expect(output.next() == "negotiate")
        output = output.negotiated()
        output.frame(1, at: 10)
        #expect(output.next(10) == "1 at 10 discont")
        output.scheduler.renegotiate()
        #expect(output.next(10) == "negotiate")
    }

    @Test func waitsForTheOrientation() {
        var output = Output { $0.waits = true }
        #expect(output.next() == "wait")
        output.scheduler.orient(portrait: true)
        #expect(output.next() == "negotiate" && output.scheduler.beginNegotiation().height == 640)
    }

    /// Some muxers write no start offsets, so both streams begin at one time.
    @Test func videoBeginsWithTheAudio() {
        func output(audioAt time: ClockTime, _ change: (inout OutputConfiguration) -> Void = { _ in }) -> Output {
            let output = self.output(change)
            _ = output.scheduler.playout.begin(.audio, at: time * Self.ms)
            return output
        }
        var black = output(audioAt: 40)
        #expect([black.next(200), black.next(245)] == ["black at 40 discont", "black at 196"])
        var later = output(audioAt: 230)
        #expect([later.next(200), later.next(229), later.next(230)] == ["wait 30", "wait 1", "black at 230 discont"])
        var longAgo = output(audioAt: 40)
        #expect(longAgo.next(2000) == "black at 1951 discont")
        // Frames of the service keep their times, and none leaves before the beginning.
        var behind = output(audioAt: 40)
        behind.frame(1, at: 160, now: 162)
        #expect([behind.next(162), behind.next(162)] == ["black at 40 discont", "1 at 160"])
        var before = output(audioAt: 240)
        before.frame(1, at: 160, now: 162)
        #expect([before.next(162), before.next(162), before.next(240)] == ["wait 0", "wait 78", "1 at 240 discont"])
    }

    /// Nothing stands in for encoded frames, for those of `fallback=none`, and for those that have the input's times.
    @Test func someFramesBeginWithoutTheAudio() {
        for change in [
            { $0.fallback = .none }, { $0.isEncoded = true }, { ($0.captureLatency, $0.latency) = (0, 0) },
        ] as [(inout OutputConfiguration) -> Void] {
            for audio in [40, 240] as [ClockTime] {
                var output = self.output(change)
                let isCapture = output.scheduler.timeline.isCapture
                if isCapture { _ = output.scheduler.setDelay(0, path: 1) }
                _ = output.scheduler.playout.begin(.audio, at: audio * Self.ms)
                output.frame(1, at: 160, now: 162)
                let isDropped = audio > 160 && output.scheduler.configuration.fallback == .none
                #expect(output.next(162) == (isDropped ? "wait 0" : "1 at 160 discont"), "audio at \(audio)")
            }
        }
    }

    /// A muted input says nothing of its orientation, and its black frames come back.
    @Test func aFrameEndsTheWaitForTheOrientation() {
        var output = Output { $0.waits = true }
        output.frame(1, at: 10)
        #expect(output.next(10) == "negotiate")
    }

    @Test func endOfStreamFollowsTheQueuedFrames() {
        var output = output()
        output.frame(1, at: 10)
        output.frame(2, at: 60)
        output.scheduler.isEnding = true
        #expect([output.next(60), output.next(60), output.next(60)] == ["1 at 11 discont", "2 at 60", "EOS"])
        output.scheduler.hasEnded = true
        #expect(output.next(60) == "stop")
    }

    @Test func whatDownstreamMakesOfAFrame() {
        func next(after duty: FlowDuty) -> String {
            var output = output()
            output.frame(1, at: 10)
            _ = output.next(20)
            output.scheduler.pushed(duty)
            output.frame(2, at: 60)
            return output.next(60)
        }
        #expect(next(after: .goOn) == "2 at 60" && next(after: .tryAgain) == "2 at 60 discont")
        #expect(next(after: .end) == "stop" && next(after: .fail) == "stop")
    }

    @Test func endsWithoutFramesEvenWhileItWaits() {
        var output = Output { $0.waits = true }
        output.scheduler.isEnding = true
        #expect(output.next() == "negotiate")
        output = output.negotiated()
        #expect(output.next() == "EOS")
    }

    @Test func nothingLeavesBelowPlaying() {
        var output = output()
        output.scheduler.isPlaying = false
        output.frame(1, at: 10)
        #expect(output.next(10) == "wait" && output.scheduler.counters.received == 1)
        output.scheduler.isPlaying = true
        #expect(output.next(10) == "wait 75", "a frame that came below PLAYING is not kept")
    }

    /// The network may deliver frames late, at once or out of order.
    @Test func timesRiseStrictly() {
        var output = output()
        let times: [(ClockTime, ClockTime)] = [(100, 100), (150, 160), (150, 161), (120, 162), (800, 800)]
        let pushed = times.enumerated().map { number, time in
            output.frame(number + 1, at: time.0, now: time.1)
            return output.next(time.1)
        }
        #expect(pushed == ["1 at 100 discont", "2 at 150", "3 at 156", "4 at 162", "5 at 800 discont"])
    }

    /// A frame that stands in leaves late, but no later than the latency allows; more follow at the frame rate.
    @Test(arguments: [
        (Fallback.freeze, "1 at 186", "1 at 686"), (.black, "1 at 186", "black at 686"),
        (.passthrough, "1 at 186", "9 at 686"), (.none, "gap at 186 for 50", "gap at 686 for 50"),
    ])
    func gapsAreFilledWhenTheLatencyIsOver(_ fallback: Fallback, _ short: String, _ long: String) {
        var output = output { $0.fallback = fallback }
        output.scheduler.setRaw(9, OutputFormat(width: 640, height: 352))
        output.frame(1, at: 100)
        _ = output.next(100)
        #expect(output.next(150) == "wait 85")
        #expect(output.next(235) == short)
        #expect(output.next(235) == "wait 50")
        for time in stride(from: ClockTime(285), to: 735, by: 50) { _ = output.next(time) }
        #expect(output.next(735) == long)
        let filled = fallback == .none ? 0 : output.scheduler.counters.pushed - 1
        #expect(output.scheduler.counters.fallbackFrames == filled)
        output.frame(2, at: 737, now: 740)
        #expect(output.next(740) == "2 at 737", "what stands in delays no frame")
    }

    /// A stall of downstream is not made up for.
    @Test func afterAStallFillingContinuesAtThePresent() {
        var output = output()
        output.frame(1, at: 100)
        _ = output.next(100)
        #expect(output.next(5000) == "1 at 4951")
        #expect(output.next(5000) == "wait 50" && output.next(5050) == "1 at 5001")
    }

    @Test func theOldestFrameIsDroppedIfDownstreamIsBusy() {
        var output = output()
        for number in 1...7 { output.frame(number, at: 50 * ClockTime(number)) }
        #expect(output.scheduler.counters.droppedLate == 3)
        #expect(output.next(350) == "4 at 301 discont", "a busy downstream gets no frame that is late already")
    }

    /// A flushing seek of another branch, or a new base time. Frames in the decoder still have the old time.
    @Test func outputResumesAtOnceAfterTheRunningTimeHasGoneBack() {
        var output = output()
        output.frame(1, at: 12_000, now: 12_000)
        _ = output.next(12_000)
        output.frame(2, at: 12_050, now: 12_050)
        output.frame(3, at: 12_100, now: 10)
        output.frame(4, at: 60, now: 60)
        let steps = (1...5).map { _ in output.next(60) }
        #expect(steps == ["segment", "2 at 11 discont", "3 at 17", "4 at 60", "wait 135"])
        #expect(output.next(195) == "4 at 146")
    }

    @Test func gapsAreFilledAfterTheRunningTimeHasGoneBack() {
        var output = output()
        output.frame(1, at: 12_000, now: 12_000)
        _ = output.next(12_000)
        #expect([output.next(100), output.next(100)] == ["segment", "1 at 51 discont"])
        #expect(output.next(100) == "wait 50")
    }

    /// Lip sync delays frames; that is no reason to start over.
    @Test func timesMayBeAheadOfTheClock() {
        var output = output()
        output.frame(1, at: 3000, now: 100)
        #expect(output.next(100) == "1 at 3000 discont")
        output.frame(2, at: 3050, now: 150)
        #expect(output.next(150) == "2 at 3050")
    }

    /// Lip sync delays the frames in steps of 80 ms a second and then no longer, and the sink synchronizes: it takes a
    /// frame when the one before it is shown.
    @Test(arguments: [ClockTime(400), 1500], [false, true])
    func theDelayOfLipSyncCostsNoFrame(skew: ClockTime, isEncoded: Bool) {
        var output = output { $0.isEncoded = isEncoded }
        var (delay, arrival, sinkIsFree): (ClockTime, ClockTime, ClockTime) = (0, 0, 0)
        for number in 0..<1200 {
            let now = ClockTime(number) * 50
            if now % 1000 == 0 { delay = number < 600 ? min(skew, delay + 80) : delay - min(delay, 80) }
            // `PlayoutClock` never goes back.
            arrival = max(arrival, now + delay)
            output.frame(number, at: arrival, now: now)
            while sinkIsFree <= now {
                let step = output.scheduler.next(now: now * Self.ms, mayFill: false)
                guard case .push(_, let stamp) = step else { break }
                sinkIsFree = stamp.time / Self.ms + 40
            }
        }
        #expect(output.scheduler.counters.droppedLate == 0)
        #expect(output.scheduler.counters.pushed > 1100)
    }

    @Test func aNewerPathTakesOver() {
        var output = output()
        output.frame(1, at: 100, path: 1)
        output.frame(2, at: 110, path: 2)
        output.frame(3, at: 150, path: 1)
        #expect(output.next(150) == "2 at 110 discont" && output.next(150) == "wait 95")
    }

    @Test func encodedFramesOfANewerPathBeginWithAKeyframe() {
        var output = output { $0.isEncoded = true }
        output.frame(1, at: 100)
        #expect(output.next(100) == "1 at 100 discont")
        output.frame(2, at: 110, path: 2, isDelta: true)
        output.frame(3, at: 150, isDelta: true)
        #expect(output.next(150) == "3 at 150")
        output.frame(4, at: 160, path: 2)
        #expect(output.next(160) == "4 at 160 discont")
    }

    /// A higher rate repeats frames, a lower one drops some, and a variable one keeps the frames and the service's interval.
    @Test(
        arguments: [
            (
                40, [100, 150, 200], [100, 150, 150, 200, 200],
                ["1 at 100 discont", "1 at 125", "2 at 150", "2 at 175", "3 at 200"]
            ),
            (10, [100, 150, 200, 250], [100, 150, 200, 250], ["1 at 100 discont", "2 at 200", "wait 0", "4 at 300"]),
            (0, [100, 130, 160], [100, 130, 160, 160], ["1 at 100 discont", "2 at 130", "3 at 160", "wait 135"]),
        ] as [(Int, [ClockTime], [ClockTime], [String])])
    func downstreamDecidesAboutTheRate(rate: Int, frames: [ClockTime], times: [ClockTime], expected: [String]) {
        var output = Output()
        output = output.negotiated((rate, 1))
        for (index, time) in frames.enumerated() { output.frame(index + 1, at: time) }
        #expect(times.map { output.next($0) } == expected)
    }

    @Test func theSizeFollowsWhatIsReceived() {
        var output = output { $0.followsReceived = true }
        output.frame(1, at: 100, width: 320)
        #expect(output.next(100) == "320x352")
        _ = output.scheduler.setFormat(OutputFormat(width: 320, height: 352, framerate: (20, 1)))
        #expect(output.next(100) == "1 at 100 discont")
    }

    /// They were scaled before downstream chose another size, and its caps event is ahead of them.
    @Test func framesOfTheLastSizeAreDropped() {
        var output = output { $0.fallback = .passthrough }
        output.frame(1, at: 100)
        _ = output.scheduler.setFormat(OutputFormat(width: 320, height: 352, framerate: (20, 1)))
        output.scheduler.setRaw(8, OutputFormat(width: 640, height: 352))
        #expect(output.next(100) == "wait 0")
        #expect(output.next(100).hasPrefix("black"))
        output.scheduler.setRaw(9, OutputFormat(width: 320, height: 352))
        #expect(output.next(200).hasPrefix("9"))
        output.frame(2, at: 250, width: 320)
        #expect(output.next(250).hasPrefix("2"))
    }

    // MARK: Adaptive playout

    /// Frames of a path whose lateness varies: no one is shown before it is ready, nine of ten are shown evenly, and a sink
    /// shows each at its PTS plus the latency that the output reports, which never changes.
    @Test func framesAreShownAsEarlyAsTheirLatenessAllows() {
        var output = output { $0.latency = nil }
        #expect(output.scheduler.latency == 10 * Self.ms)
        var shown: [ClockTime] = []
        for number in 0..<200 {
            let media = 1000 + ClockTime(number) * 50
            let ready = media + (number % 20 == 7 ? 60 : 20)
            output.frame(number, at: media, now: ready)
            guard case .push(_, let stamp) = output.scheduler.next(now: ready * Self.ms, mayFill: true) else {
                Issue.record("no frame leaves")
                return
            }
            let display = stamp.time / Self.ms + 10
            #expect(display > ready && display <= ready + 50)
            shown.append(display - media)
        }
        #expect(shown.suffix(100).filter { $0 == 21 }.count >= 90 && shown.contains(61))
        #expect(output.scheduler.counters.shownLate >= 5 && output.scheduler.counters.shownLate <= 20)
        #expect(output.scheduler.latency == 10 * Self.ms)
    }

    /// After a pause of the network all that is ready leaves at once, and the next frames are as early as before.
    @Test func aPauseLeavesNoDelay() {
        var output = output { $0.latency = nil }
        output.showHundredFrames()
        for number in 100..<109 { output.frame(number, at: 1000 + ClockTime(number) * 50, now: 6402) }
        let burst = (0..<9).map { _ in output.next(6402) }
        #expect(burst.first == "100 at 6393 discont" && burst.last == "108 at 6443", "\(burst)")
        #expect(output.scheduler.counters.droppedLate == 0)
        output.frame(109, at: 6450, now: 6452)
        _ = output.next(6452)
        output.frame(110, at: 6500, now: 6502)
        #expect(output.next(6502) == "110 at 6493")
    }

    /// A pause of seconds: what is older than half a second is not shown any more.
    @Test func aLongPauseIsNotPlayedFast() {
        var output = output { $0.latency = nil }
        output.showHundredFrames()
        for number in 100..<160 { output.frame(number, at: 1000 + ClockTime(number) * 50, now: 9000) }
        let burst = (0..<60).map { _ in output.next(9000) }.filter { !$0.hasPrefix("wait") }
        #expect(burst.first == "146 at 8991 discont" && burst.count == 14, "\(burst)")
    }

    /// A pipeline with more latency than the output's holds the frames for longer, which costs none.
    @Test(arguments: [ClockTime(0), 500, 3000]) func aSinkThatHoldsFramesForLongCostsNone(latency: ClockTime) {
        var output = output { $0.latency = nil }
        output.scheduler.pipelineLatency = latency * Self.ms
        var sinkIsFree: ClockTime = 0
        for number in 0..<400 {
            let now = 1000 + ClockTime(number) * 50
            output.frame(number, at: now, now: now + 3)
            while sinkIsFree <= now + 3 {
                guard case .push(_, let stamp) = output.scheduler.next(now: (now + 3) * Self.ms, mayFill: false) else {
                    break
                }
                sinkIsFree = stamp.time / Self.ms + max(latency, 10)
            }
        }
        #expect(output.scheduler.counters.droppedLate == 0 && output.scheduler.counters.pushed > 300)
    }

    /// With `timestamps=capture` a frame waits for the delay of its path, and gaps stay open while the input stands
    /// still.
    @Test func captureTimesNeedADelay() {
        var output = output { $0.captureLatency = 500 * Self.ms }
        output.frame(1, at: 400)
        #expect(output.next(400, mayFill: false) == "wait")
        let needsMore = output.scheduler.setDelay(Int64(300 * Self.ms), path: 1)
        #expect(!needsMore)
        #expect(output.next(400, mayFill: false) == "1 at 100 discont")
        #expect(output.next(2000, mayFill: false) == "wait")
        #expect(output.scheduler.latency == 500 * Self.ms)
    }

    /// All that was configured survives the pad's deactivation, and nothing of the run.
    @Test func aRestartKeepsTheConfiguration() {
        var output = output { ($0.fallback, $0.captureLatency) = (.none, 500 * Self.ms) }
        output.frame(1, at: 400)
        _ = output.scheduler.setDelay(Int64(900 * Self.ms), path: 1)
        _ = output.next(400)
        output.scheduler.deactivate()
        #expect(output.next(400) == "stop")
        output.scheduler = OutputScheduler(output.scheduler.configuration)
        (output.scheduler.isActive, output.scheduler.isPlaying) = (true, true)
        #expect(output.scheduler.configuration.fallback == .none && output.scheduler.latency == 500 * Self.ms)
        #expect(output.scheduler.counters.pushed == 0 && output.scheduler.lastTime == nil)
        #expect(output.next(400) == "negotiate")
    }

    // MARK: Times that must not be

    /// Frames that were held become ready at once: each leaves an eighth of an interval after the one before at least.
    @Test(arguments: [false, true]) func framesThatLeaveTogetherHaveTimesApart(isEncoded: Bool) {
        var output = output { $0.isEncoded = isEncoded }
        output.frame(0, at: 1000, now: 1001)
        _ = output.next(1001)
        var times: [ClockTime] = []
        for number in 1...6 { output.frame(number, at: 1050 + ClockTime(number), now: 1400) }
        while case .push(.frame, let stamp) = output.scheduler.next(now: 1400 * Self.ms, mayFill: true) {
            times.append(stamp.time)
        }
        #expect(times.count == 6)
        #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= 50 * Self.ms / 8 })
    }

    /// An arrival by another clock neither waits for its time nor holds later frames back.
    @Test(arguments: [ClockTime(20_000), 1_000_000]) func anArrivalAheadOfTheClockIsNow(ahead: ClockTime) {
        var output = output()
        output.frame(1, at: 1000 + ahead, now: 1000)
        output.frame(2, at: 1050, now: 1050)
        guard case .push(_, let first) = output.scheduler.next(now: 1050 * Self.ms, mayFill: true),
            case .push(_, let second) = output.scheduler.next(now: 1050 * Self.ms, mayFill: true)
        else {
            Issue.record("two frames are due")
            return
        }
        #expect(first.time < 2000 * Self.ms && second.time < 2000 * Self.ms)
    }

    // MARK: Preroll

    @Test func aContainerThatWaitsForItsSinksGetsOneGap() {
        var output = output()
        output.scheduler.isPlaying = false
        #expect(output.next() == "wait")
        let isNew = output.scheduler.preroll()
        #expect(isNew && output.next() == "gap at 0 for 50" && output.next() == "wait")
        output.scheduler.isPlaying = true
        output.frame(1, at: 1000, now: 1001)
        #expect(output.next(1001) == "1 at 1000 discont")
        output.scheduler.isPlaying = false
        let isAgain = output.scheduler.preroll()
        #expect(!isAgain && output.next(1001) == "wait", "after PLAYING the sinks have what they need")
    }

    @Test func nothingPrerollsBeforeTheFormatIsKnown() {
        var output = output { $0.waits = true }
        output.scheduler.isPlaying = false
        _ = output.scheduler.preroll()
        #expect(output.next() != "gap at 0 for 50")
        var encoded = self.output { $0.isEncoded = true }
        encoded.scheduler.isPlaying = false
        #expect(!encoded.scheduler.preroll() && encoded.next() == "wait")
    }
}
