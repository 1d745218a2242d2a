import GStreamerKit
import MediaPipeline
import Testing

@Suite struct AdmissionPolicyTests {
    private typealias Policy = AdmissionPolicy<Int>
    private static let ms: ClockTime = 1_000_000

    private func arrival(_ index: Int, at: Int? = nil, step: ClockTime? = 40 * ms) -> Policy.Arrival {
        let time = ClockTime(index * 40) * Self.ms
        return Policy.Arrival(
            at: .milliseconds(at ?? index * 40), present: time, upstream: time, step: step, frame: index)
    }

    private func playing(path: Bool = true) -> Policy {
        var policy = Policy()
        policy.playing = true
        if path { policy.handle(.opened(1)) }
        return policy
    }

    @Test func aLiveFrameThatNoPathTakesIsReported() {
        var policy = playing(path: false)
        var seen = [policy.admitLive(at: 0)]
        policy.isWithheld = true
        seen.append(policy.admitLive(at: 0))
        policy.isWithheld = false
        let wasClosed = policy.handle(.opened(1)).contains(.restartsTime)
        seen.append(policy.admitLive(at: 0))
        let isFirst = policy.handle(.opened(2)).contains(.restartsTime)
        #expect(wasClosed && !isFirst)
        policy.playing = false
        seen.append(policy.admitLive(at: 0))
        #expect(seen == [.dropped, .refused, .passes(0), .dropped])
        #expect(policy.counters.droppedWithoutSession == 2 && policy.counters.droppedNotPlaying == 1)
    }

    @Test func aFlushAStopAndARemovalRefuse() {
        let begins: [(inout Policy) -> Void] = [
            { $0.set(flushing: true) }, { $0.isStopping = true }, { $0.isClosing = true },
        ]
        for begin in begins {
            var policy = playing()
            begin(&policy)
            let admission = policy.admitLive(at: 0)
            #expect(policy.refuses && admission == .refused)
        }
        var policy = playing()
        policy.set(flushing: true)
        policy.isStopping = true
        policy.prepare()
        #expect(!policy.refuses && policy.isOpen)
    }

    /// A frame that waits for its time starts over with each event that may make the time another one.
    @Test func eventsWakeThreadsThatWait() {
        let cancelling: [Policy.Event] = [.playing(false), .clockChanged, .flushing(true), .stopping, .closing]
        for event in cancelling {
            var policy = playing()
            let effects = policy.handle(event)
            #expect(effects == [.wakes, .cancelsWait], "\(event)")
        }
        for event in [.flushing(false), .prepared] as [Policy.Event] {
            var policy = playing()
            let effects = policy.handle(event)
            #expect(effects == [.wakes, .cancelsWait, .restartsTime], "\(event)")
        }
        var policy = playing(path: false)
        let opened = [policy.handle(.opened(1)), policy.handle(.opened(2)), policy.handle(.closed(1))]
        #expect(opened == [[.wakes, .restartsTime], .wakes, []], "the first path begins a time, others join it")
        let streams = [policy.handle(.streamStart("a")), policy.handle(.streamStart("a")), policy.handle(.untaken)]
        #expect(streams == [.isOtherStream, [], []])
    }

    @Test func theFirstFrameOfAStreamAsksForItsKind() {
        var policy = playing()
        func receive(_ index: Int, lead: Int = 0, isLive: Bool? = nil) -> Policy.Reception {
            var arrival = Policy.Arrival(
                at: .milliseconds(index * 40), present: ClockTime(index * 40) * Self.ms,
                upstream: ClockTime(index * 40 + lead) * Self.ms, step: nil, frame: index)
            return policy.receive(&arrival, isLive: isLive)
        }
        policy.set(framerate: (25, 1))
        var seen = [receive(0)]
        _ = policy.handle(.source(isLive: true, isFollower: false, isPipe: false))
        seen += [receive(0, isLive: true), receive(1)]
        _ = policy.handle(.source(isLive: false, isFollower: false, isPipe: nil))
        seen += [receive(2), receive(3)]
        let passes = Policy.Reception.live(.passes(0))
        #expect(Array(seen.prefix(2)) == [.unknown(isAhead: false), passes])
        #expect(Array(seen.suffix(2)) == [.paced, .paced] && policy.counters.framesIn == 4, "one frame counts once")
    }

    @Test func aNewPadIsJudgedAnew() {
        var policy = playing()
        policy.set(live: true, isFollower: true)
        policy.renew()
        #expect(policy.isLive == nil && !policy.isFollower)
    }

    @Test func theLowestRateHolds() {
        func passed(_ change: (inout Policy) -> Void) -> Int {
            var policy = playing()
            policy.handle(.maximumRate(25))
            change(&policy)
            return (0..<50).filter { policy.admitLive(at: ClockTime($0 * 20) * Self.ms) != .refused }.count
        }
        #expect(passed { _ in } == 25)
        #expect(passed { $0.handle(.carriedRate(5, 1)) } == 6, "one may be early")
        #expect(
            passed {
                $0.handle(.carriedRate(5, 1))
                $0.handle(.carriedRate(nil, 1))
            } == 25)
        #expect(passed { $0.isEncoded = true } == 50, "later frames depend on each one")
    }

    @Test func theCallsThatFollowAStopForgetTheStreamOnly() {
        var policy = playing()
        policy.set(live: false, isFollower: false)
        policy.set(framerate: (25, 1))
        _ = policy.arrive(arrival(3), isLive: false)
        policy.counters.framesSent = 7
        policy.isWithheld = true
        policy.reset()
        #expect(policy.isLive == nil && policy.step == nil && policy.timeToHold == nil && !policy.playing)
        #expect(policy.open == [1] && policy.isWithheld && policy.counters.framesSent == 7)
    }

    @Test func anotherStreamHasAnotherLiveness() {
        var policy = playing()
        let isFirst = policy.begin(stream: "a")
        policy.set(live: true, isFollower: true)
        let isSame = !policy.begin(stream: "a")
        #expect(isFirst && isSame && policy.isLive == true && policy.isFollower)
        let isOther = policy.begin(stream: "b")
        #expect(isOther && policy.isLive == nil && !policy.isFollower)
        let isNameless = policy.begin(stream: nil)
        #expect(isNameless, "a stream without a name may be any")
    }

    @Test func aFrameWaitsForItsTimeUnlessItComesAtThePaceOfTheClock() {
        var policy = playing()
        func waits(_ arrival: Policy.Arrival, _ early: Int64, _ why: Comment, not: Bool = false) {
            policy.returns(at: .milliseconds(0))
            let waits = policy.waits(arrival, early: early)
            #expect(waits != not, why)
        }
        waits(arrival(0), 1, "early")
        waits(arrival(0), 0, "due", not: true)
        waits(arrival(1), 30_000_000, "upstream was idle", not: true)
        waits(arrival(1), 50_000_000, "more than a frame early")
        waits(arrival(1, at: 1), 30_000_000, "upstream was busy")
        policy.set(flushing: true)
        waits(arrival(0), 1, "a flush", not: true)
    }

    @Test func aProgramBehindAPipeIsJudgedByItsFirstFrames() {
        func judge(_ pace: Int) -> [PaceProbe.Verdict?] {
            var policy = playing(path: false)
            policy.set(isPipe: true)
            return (0..<6).map { index in
                let verdict = policy.probe(arrival(index, at: index * pace))
                policy.returns(at: .milliseconds(index * pace))
                return verdict
            }
        }
        #expect(judge(40).last == .followsClock)
        #expect(judge(0) == [.undecided, .undecided, .undecided, .asFastAsTaken, nil, nil])
        var late = playing(path: false)
        late.handle(.caps(keeps: true))
        late.set(isPipe: true)
        late.keep(arrival(0), bytes: 1)
        late.handle(.opened(1))
        #expect(late.isJudging && late.mayKeep, "the frames from before would delay a live input for good")
        var file = playing(path: false)
        let verdict = file.probe(arrival(0))
        #expect(verdict == nil)
    }

    private func described(_ turn: Policy.Turn) -> String {
        switch turn {
        case .next(let next): "\(next.isKept ? "kept " : "")\(next.frame)"
        case .waits(let inPlaying): inPlaying ? "waits" : "waits in PAUSED"
        case .keep: "keep"
        case .follows: "follows"
        case .refused: "refused"
        }
    }

    @Test func aFrameOfAFileTakesItsTurn() {
        func turn(_ policy: Policy, isProbed: Bool = false, grows: Bool = false) -> String {
            var policy = policy
            return described(policy.turn(arrival(7), isProbed: isProbed, growsWithTime: grows))
        }
        var policy = playing(path: false)
        #expect(turn(policy) == "waits" && turn(policy, grows: true) == "follows")
        policy.set(isPipe: true)
        #expect(turn(policy) == "keep" && turn(policy, isProbed: true) == "waits")
        policy.playing = false
        #expect(turn(policy) == "waits in PAUSED")
        policy = playing()
        #expect(turn(policy) == "7")
        policy.handle(.caps(keeps: true))
        policy.keep(arrival(1), bytes: 1)
        #expect(turn(policy) == "kept 1")
        policy.isStopping = true
        #expect(turn(policy, grows: true) == "refused")
    }

    /// A pause, a flush of upstream's or another clock cancels the wait of a frame, which then takes its turn again.
    @Test func aWaitThatBeginsAgainCountsOnceForTheRateLimit() throws {
        var policy = playing()
        policy.handle(.maximumRate(5))
        var seen: [String] = []
        var next = arrival(0)
        next.time = 0
        for _ in 0..<3 {
            let turn = policy.turn(next, isProbed: false, growsWithTime: false)
            seen.append(described(turn))
            if case .next(let admitted) = turn { next = admitted }
        }
        var early = arrival(1)
        early.time = 40 * Self.ms
        let last = policy.turn(early, isProbed: false, growsWithTime: false)
        #expect(seen == ["0", "0", "0"] && described(last) == "refused" && policy.counters.framesRateLimited == 1)
        policy.handle(.caps(keeps: true))
        var late = arrival(9)
        late.time = 360 * Self.ms
        policy.keep(late, bytes: 1)
        for _ in 0..<2 {
            let kept = policy.takeKept()
            policy.putBack(try #require(kept), bytes: 1)
        }
        #expect(policy.hasKept && policy.counters.framesRateLimited == 1)
    }

    @Test func framesAreKeptOnlyIfNothingButAPathIsMissing() {
        var policy = playing(path: false)
        #expect(!policy.mayKeep)
        policy.handle(.caps(keeps: true))
        #expect(policy.mayKeep)
        policy.isWithheld = true
        #expect(!policy.mayKeep)
        (policy.isWithheld, policy.playing) = (false, false)
        #expect(!policy.mayKeep)
        policy.playing = true
        policy.isEncoded = true
        #expect(!policy.mayKeep)
        policy.isEncoded = false
        policy.keep(arrival(0), bytes: 1)
        let kept = policy.takeKept()
        #expect(kept?.isKept == true && kept?.frame == 0 && policy.counters.framesDropped == 0)
        policy.keep(nil, bytes: 0)
        #expect(policy.counters.droppedWithoutSession == 1 && !policy.hasKept)
    }

    /// Each with a frame that is kept: the number that counts as lost. A flush loses on purpose.
    @Test func whatEndsTheStreamDropsWhatIsKept() {
        func lost(_ end: (inout Policy) -> Void) -> UInt64? {
            var policy = playing(path: false)
            policy.handle(.caps(keeps: true))
            policy.keep(arrival(0), bytes: 1)
            end(&policy)
            return policy.hasKept ? nil : policy.counters.framesDropped
        }
        #expect(lost { $0.handle(.caps(keeps: true)) } == 1)
        #expect(lost { $0.set(live: true, isFollower: true) } == 1)
        #expect(lost { $0.set(live: false, isFollower: false) } == nil)
        #expect(lost { $0.dropKept() } == 1)
        #expect(lost { $0.set(flushing: true) } == 0)
        #expect(lost { $0.renew() } == 0)
        #expect(lost { $0.reset() } == 0)
    }
}
