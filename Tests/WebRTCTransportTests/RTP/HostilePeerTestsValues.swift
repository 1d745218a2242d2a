import RTP
import Testing
import TestSupport
import WebRTCTransport

/// The bounds that limit a hostile remote peer, each one alone, with a clock that the test sets.
@Suite(.timeLimit(.minutes(1)))
struct HostilePeerValueTests {
    // MARK: Sources

    @Test func aFullTableTakesNothingNewWhileAllAreHeard() {
        var sources = InboundSources()
        for ssrc in 0..<UInt32(InboundSources.capacity) {
            #expect(sources.admits(ssrc, now: .zero))
            let replaced = sources.record(ssrc, now: .zero)
            #expect(replaced == nil)
        }
        let almost = InboundSources.silence - .milliseconds(1)
        #expect(!sources.admits(1000, now: almost))
        #expect(sources.admits(5, now: almost))
        let replaced = sources.record(5, now: almost)
        #expect(replaced == nil)
        #expect(sources.count == InboundSources.capacity)
    }

    @Test func theOneThatIsSilentLongestIsReplaced() {
        var sources = InboundSources()
        for ssrc in 0..<UInt32(InboundSources.capacity) { _ = sources.record(ssrc, now: .milliseconds(Int(ssrc))) }
        let now = InboundSources.silence + .milliseconds(1)
        _ = sources.record(0, now: now)
        // `admits` changes nothing: a forged packet, not yet authenticated, must not take a slot.
        #expect(sources.admits(1000, now: now) && sources.admits(1000, now: now))
        let replaced = sources.record(1000, now: now)
        #expect(replaced == 1)
        #expect(!sources.admits(1001, now: now))
        #expect(sources.admits(1001, now: now + .milliseconds(1)) && sources.count == InboundSources.capacity)
    }

    /// All streams restart each second, 100,000 times in a row.
    @Test func restartsAreNeverLockedOut() {
        var sources = InboundSources()
        for second in 0..<100_000 {
            for stream in 0..<6 {
                let ssrc = UInt32(second * 6 + stream)
                #expect(sources.admits(ssrc, now: .seconds(second)))
                _ = sources.record(ssrc, now: .seconds(second))
            }
            #expect(sources.count <= InboundSources.capacity)
        }
    }

    /// SRTP keeps the replay window of each SSRC, so their number is limited; known ones may return.
    @Test func soManySourcesNeedNewKeys() {
        var sources = InboundSources()
        for ssrc in 0..<UInt32(InboundSources.maximumOfKeys) {
            _ = sources.record(ssrc, now: .seconds(Int(ssrc)))
            _ = sources.record(ssrc / 2, now: .seconds(Int(ssrc)))
        }
        #expect(!sources.needsNewKeys)
        _ = sources.record(UInt32(InboundSources.maximumOfKeys), now: .seconds(2_000))
        #expect(sources.needsNewKeys)
    }

    // MARK: Streams

    @Test func theNewestStreamIsShownUntilItFallsSilent() {
        var choice = StreamChoice()
        // SSRC of a packet, its arrival time in ms, and the SSRC selected from then on.
        let steps: [(ssrc: UInt32, time: Int, activeSSRC: UInt32)] = [
            (1, 0, 1), (1, 10, 1),
            // The successor is selected at once; remaining packets of the old stream count as late.
            (2, 20, 2), (1, 30, 2), (1, 519, 2), (1, 520, 1), (2, 600, 1),
        ]
        for step in steps {
            let before = choice.activeSSRC
            let isNews = choice.update(step.ssrc, now: .milliseconds(step.time))
            #expect(choice.activeSSRC == step.activeSSRC && isNews == (before != step.activeSSRC), "\(step)")
        }
    }

    /// If the table forgot it, its next packet would make it the newest stream.
    @Test func aStreamThatFlowsIsNotForgottenBehindManyOthers() {
        var choice = StreamChoice()
        _ = choice.update(1, now: .zero)
        for number in 1...100 {
            let ssrc = UInt32(1 + number)
            _ = choice.update(ssrc, now: .milliseconds(number * 10))
            let isNews = choice.update(1, now: .milliseconds(number * 10 + 5))
            #expect(!isNews && choice.activeSSRC == ssrc)
        }
    }

    @Test func theBestLayerThatFlowsIsShown() {
        var choice = StreamChoice()
        // SSRC of a packet, its layer, its arrival time in ms, and the SSRC selected from then on.
        let steps: [(ssrc: UInt32, layer: Int?, time: Int, activeSSRC: UInt32?)] = [
            (9, nil, 0, nil), (1, 2, 0, 1), (3, 0, 1, 3), (2, 1, 2, 3),
            // A sender may put the RID into a stream's first packets only.
            (3, nil, 300, 3), (2, nil, 700, 3),
            // The best one has stopped, and comes back behind the second best.
            (1, nil, 801, 1), (2, nil, 802, 2), (3, nil, 900, 3), (4, 0, 901, 4), (3, nil, 902, 4),
        ]
        for step in steps {
            let before = choice.activeSSRC
            let isNews = choice.update(step.ssrc, layer: step.layer, now: .milliseconds(step.time))
            #expect(choice.activeSSRC == step.activeSSRC && isNews == (before != step.activeSSRC), "\(step)")
        }
        for ssrc in 20..<60 { _ = choice.update(UInt32(ssrc), layer: 1, now: .milliseconds(903)) }
        let isKnown = choice.update(2, layer: nil, now: .seconds(2))
        #expect(!isKnown && choice.activeSSRC == 4, "a forgotten stream has no layer until a packet names it")
        let isDetected = choice.update(2, layer: 1, now: .seconds(2))
        #expect(isDetected && choice.activeSSRC == 2)
    }

    // MARK: Missing packets

    /// One packet never comes, and all others do, as fast as they like.
    @Test func aGapThatNothingFillsDoesNotKeepAllThatFollows() {
        var buffer = JitterBuffer<UInt16>(requests: true)
        var (delivered, lost, most) = (0, 0, 0)
        for number in 0..<60_000 where number != 1 {
            let sequence = UInt16(number)
            let insertion = buffer.insert(sequence, sequence: sequence, endsFrame: true, now: .microseconds(number))
            if insertion == .inOrder { delivered += 1 }
            while let next = buffer.next(now: .microseconds(number)) {
                if case .lost(_, let count) = next { lost += count } else { delivered += 1 }
            }
            most = max(most, number - delivered)
        }
        #expect(most == JitterBuffer<UInt16>.maximumWaiting && lost == 1 && delivered == 59_999)
    }

    /// Each description declares other streams.
    @Test func declaredStreamsAreForgotten() {
        var sources = RetransmissionSources()
        for round: UInt32 in 0..<100 {
            let declared = (0..<128 as Range<UInt32>).map { (round << 8 | $0, $0) }
            sources.declare(Dictionary(uniqueKeysWithValues: declared))
            #expect(!sources.mayRepeat(200, rtx: round << 8))
        }
        #expect(sources.mayRepeat(200, rtx: 0), "long ago")
    }

    @Test func aRepetitionIsNoFurtherAheadThanOtherPackets() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(50))
        #expect(clock.time(ofRepetition: 5, arrival: 7) == nil)
        clock.delay = 1_000_000
        _ = clock.time(of: 900_000, arrival: 10_000_000_000)
        let times = [900_000, 945_000, 990_000, 9_000_000, 0x7fff_ffff, 0x9000_0000].map { (timestamp: UInt32) in
            clock.time(ofRepetition: timestamp, arrival: 10_000_000_000)
        }
        let end: Int64 = 11_001_000_000
        #expect(times == [10_001_000_000, 10_501_000_000, end, end, end, 0])
    }

    // MARK: Feedback

    /// Steps of the remote clock of any length.
    @Test func anyDelayOfThePathDoesNotTrap() {
        var (queue, monitor, now) = (StandingQueue(), RoundTripMonitor(), Int64(0))
        for delay in [0, .min, .max, -1, .max, .min, 1 << 62, -1 << 62, .max] as [Int64] {
            now += 400_000
            _ = queue.update(oneWay: delay, ownTime: .max, roundTrip: 100_000, now: now)
            _ = monitor.update(delay, now: now)
            #expect((0...60_000_000).contains(queue.length))
        }
        #expect(queue.length > 50_000_000)
    }

    /// A datagram of numbers, each of which would be looked for.
    @Test func oneDatagramRequestsSoManyPackets() {
        let entries = (0..<120).flatMap { (entry: Int) -> [UInt8] in [0, UInt8(entry), 0xff, 0xff] }
        let message: [UInt8] = [0x81, 205, 0, 122, 0, 0, 0, 1, 0, 0, 0, 2] + entries
        let compound = (message + message + message).withUnsafeBytes { RTCPCompound(parsing: $0) }
        let requested = compound.nacks.reduce(0) { $0 + $1.sequences.count }
        #expect(compound.nacks.count == 3 && compound.nacks[0].sequences.prefix(3) == [0, 1, 2])
        #expect((RTCPCompound.maximumRequested..<RTCPCompound.maximumRequested + 17).contains(requested))
    }

    /// Before the first round trip, and on the shortest path.
    @Test(arguments: [nil, Duration.zero, .milliseconds(1)])
    func keyframesAreNotMadeAsFastAsTheyAreRequested(roundTrip: Duration?) {
        var pace = KeyframePace(shortest: FeedbackLimits().keyframeInterval)
        if let roundTrip { pace.pace(roundTrip: roundTrip) }
        let answers = (0..<200).map { pace.request(ssrc: 1, now: .microseconds($0)) }
        #expect(answers.filter { $0 == .now }.count == 1 && answers.dropFirst(2).allSatisfy { $0 == .waits })
    }

    // MARK: Retransmissions

    @Test func noPacketTwiceWithinHalfARoundTrip() {
        var budget = RetransmissionBudget()
        func allows(_ ssrc: UInt32, _ sequence: UInt16, _ milliseconds: Int) -> Bool {
            budget.allows(ssrc: ssrc, sequence: sequence, now: .milliseconds(milliseconds)) { 1200 }
        }
        #expect(!allows(1, 1, 0), "nothing before the bit rate is known")
        budget.pace(roundTrip: .milliseconds(80), bitrate: 2_000_000)
        #expect(allows(1, 1, 0))
        #expect(!allows(1, 1, 39))
        #expect(allows(2, 1, 39))
        #expect(allows(1, 2, 39))
        #expect(allows(2, 1, 79))
    }

    @Test func noPacketOftenerThanTheLimit() {
        var limits = FeedbackLimits()
        (limits.retransmissions, limits.retransmissionInterval) = (3, .milliseconds(100))
        var budget = RetransmissionBudget(limits)
        budget.pace(roundTrip: .milliseconds(10), bitrate: 2_000_000)
        let allowed = stride(from: 0, through: 1000, by: 50).filter { time in
            budget.allows(ssrc: 1, sequence: 7, now: .milliseconds(time)) { 1200 }
        }
        #expect(allowed == [0, 100, 200])
        let isAllowed = budget.allows(ssrc: 1, sequence: 8, now: .milliseconds(1000)) { 1200 }
        #expect(isAllowed)
    }

    @Test(arguments: [300_000, 2_000_000, 10_000_000])
    func aQuarterOfTheBitRate(bitrate: Int) {
        var budget = RetransmissionBudget()
        budget.pace(roundTrip: .milliseconds(40), bitrate: bitrate)
        let (share, size) = (bitrate / 8 / 4, 1200)
        func sent(_ milliseconds: Range<Int>) -> Int {
            milliseconds.reduce(0) { sum, at in
                (0..<600).reduce(sum) { sum, index in
                    let sequence = UInt16(truncatingIfNeeded: at * 600 + index)
                    let isAllowed = budget.allows(ssrc: 1, sequence: sequence, now: .milliseconds(at)) { size }
                    return isAllowed ? sum + size : sum
                }
            }
        }
        // A burst of two seconds' worth is allowed, then only the steady rate.
        let (first, later) = (sent(0..<1), sent(1..<2001))
        #expect(abs(first - 2 * share) <= size)
        #expect(abs(later - 2 * share) <= 2 * size)
    }

    @Test func packetsThatAreNotKeptCostNothing() {
        var budget = RetransmissionBudget()
        budget.pace(roundTrip: .milliseconds(40), bitrate: 300_000)
        for sequence: UInt16 in 0..<10_000 {
            let isAllowed = budget.allows(ssrc: 1, sequence: sequence, now: .zero) { nil }
            #expect(!isAllowed)
        }
        let isAllowed = budget.allows(ssrc: 1, sequence: 20_000, now: .zero) { 1200 }
        #expect(isAllowed)
        // A request too early does not even look for the packet.
        var looked = false
        let isAllowedAgain = budget.allows(ssrc: 1, sequence: 20_000, now: .milliseconds(5)) {
            looked = true
            return 1200
        }
        #expect(!isAllowedAgain && !looked)
    }

    @Test func anyNumbersDoNotTrap() {
        var budget = RetransmissionBudget()
        for bitrate in [Int.min, -1, 0, Int.max] {
            budget.pace(roundTrip: .seconds(-1), bitrate: bitrate)
            var allowed: [Bool] = []
            for now in [Duration.zero, .seconds(-5), .seconds(1 << 40)] {
                allowed.append(budget.allows(ssrc: .max, sequence: .max, now: now) { 1200 })
            }
            // The second request comes before the first one, so it is no later one for the same packet.
            #expect(allowed == (bitrate > 0 ? [true, false, true] : [false, false, false]), "\(bitrate)")
        }
    }

    // MARK: Frames

    private func sizes(_ codec: VideoCodec, _ bytes: [UInt8]) -> [FrameSize]? {
        bytes.withUnsafeBytes(codec.announcedSizes)
    }

    /// Parameter sets of x264 and handmade ones: cropped 1920x1080, interlaced, scaling lists, emulation prevention.
    @Test func parameterSetsOfEncoders() {
        let high: [UInt8] = [
            0, 0, 0, 1, 0x67, 0x64, 0x00, 0x28, 0xac, 0xd9, 0x40, 0x78, 0x02, 0x27, 0xe5, 0xc0, 0x44, 0x00, 0x00, 0x03,
            0x00, 0x04,
            0x00, 0x00, 0x03, 0x00, 0xf0, 0x3c, 0x60, 0xc6, 0x58,
        ]
        let baseline: [UInt8] = [0x67, 0x42, 0xc0, 0x15, 0xd9, 0x01, 0x41, 0xfb, 0x01, 0x6a, 0x0c, 0x0c, 0x0d, 0x4a]
        #expect(sizes(.h264, high) == [FrameSize(width: 1920, height: 1088)])
        #expect(sizes(.h264, [0, 0, 1] + baseline) == [FrameSize(width: 320, height: 240)])
        #expect(sizes(.h264, [0, 0, 1, 0x65, 1, 2, 3] + high) == [FrameSize(width: 1920, height: 1088)])
        #expect(sizes(.h264, [0, 0, 1, 0x65, 1, 2, 3, 0, 0, 3, 1, 0x67]) == [])
        #expect(sizes(.h264, [0, 0, 1, 0x67, 0x42]) == nil)
    }

    /// VP9 bitstream annex B: the size of each frame counts.
    @Test func superframes() {
        func keyframe(_ width: UInt64, _ height: UInt64) -> [UInt8] {
            // The colour configuration has four bits.
            let rest = 1 << 36 | (width - 1) << 20 | (height - 1) << 4
            return [0x82, 0x49, 0x83, 0x42] + (0..<5).map { UInt8(truncatingIfNeeded: rest >> (32 - 8 * $0)) }
        }
        func superframe(_ frames: [[UInt8]]) -> [UInt8] {
            let marker = 0xc0 | UInt8(frames.count - 1)
            return frames.flatMap { $0 } + [marker] + frames.map { UInt8($0.count) } + [marker]
        }
        let (small, medium, large) = (keyframe(320, 176), keyframe(640, 352), keyframe(9000, 16))
        let layers = superframe([small, medium])
        #expect(sizes(.vp9, layers) == [FrameSize(width: 320, height: 176), FrameSize(width: 640, height: 352)])
        var damaged = layers
        damaged[small.count + medium.count + 1] = 200
        #expect(sizes(.vp9, damaged) == nil)
        var gate = FrameGate(codec: .vp9)
        func judge(_ bytes: [UInt8]) -> FrameGate.Verdict { bytes.withUnsafeBytes { gate.judge($0) } }
        let verdicts = [layers, superframe([small, large]), damaged, layers].map { judge($0) }
        #expect(verdicts == [.pass, .drop, .drop, .pass])
    }

    @Test(arguments: VideoCodec.allCases)
    func anyBytesDoNotTrap(codec: VideoCodec) {
        var generator = SeededGenerator(seed: 9)
        var read = 0
        for round in 0..<20_000 {
            var bytes = generator.bytes(round % 80)
            let prefix: [UInt8] =
                switch codec {
                case .vp8: [0x10, 0, 0, 0x9d, 1, 0x2a]
                case .vp9: [0x82, 0x49, 0x83, 0x42]
                case .h264: [0, 0, 1, 0x67, [66, 100, 122][round % 3], 0, 31]
                case .h265: [0, 0, 1, 0x42, 1, UInt8(round % 14), 1, 0x60, 1, 1, 1, 1, 0x90, 1, 1, 1, 1, 0x5d]
                }
            if round % 2 == 0 { bytes.insert(contentsOf: prefix, at: 0) }
            if round % 5 == 0, let last = bytes.indices.last { bytes[last] = 0xc0 | bytes[last] & 0x1f }
            if sizes(codec, bytes)?.isEmpty == false { read += 1 }
        }
        #expect(read > 1000, "\(read) sizes")
    }

    @Test func whatDependsOnARefusedFrameIsRefusedToo() {
        func frame(_ width: Int, _ height: Int) -> [UInt8] {
            [0x10, 0, 0, 0x9d, 1, 0x2a] + [width & 255, width >> 8, height & 255, height >> 8].map { UInt8($0) }
        }
        let delta: [UInt8] = [0x11, 0, 0, 1, 2, 3]
        var gate = FrameGate(codec: .vp8)
        func judge(_ bytes: [UInt8]) -> FrameGate.Verdict { bytes.withUnsafeBytes { gate.judge($0) } }
        let refused = [frame(640, 352), delta, frame(9000, 16), delta, delta].map { judge($0) }
        #expect(refused == [.pass, .pass, .drop, .drop, .drop])
        let taken = [frame(640, 352), delta].map { judge($0) }
        #expect(taken == [.pass, .pass])
        let failed = FrameGate.Verdict.fail(FrameSize(width: 9000, height: 16))
        let verdicts = (0..<4).map { _ in judge(frame(9000, 16)) }
        #expect(verdicts == [.drop, .drop, failed, .drop])
        let damaged = judge([0x10, 0, 0, 0x9d])
        #expect(damaged == .drop)
    }
}
