import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The receiving side of an RTP session on a virtual clock.
@Suite(.timeLimit(.minutes(1)))
struct RTPReceptionTests {
    /// A jitter buffer whose packets are their sequence numbers.
    private struct Line {
        var buffer: JitterBuffer<UInt16>
        var now = Duration.zero
        var delivered: [UInt16] = []
        var lost: [UInt16] = []
        var requested: [UInt16] = []

        init(requests: Bool = true) { buffer = JitterBuffer(requests: requests) }

        mutating func arrive(
            _ sequence: UInt16, at milliseconds: Int, endsFrame: Bool = true, beginsKeyframe: Bool = false,
            isRetransmission: Bool = false
        ) {
            advance(to: milliseconds)
            let insertion = buffer.insert(
                sequence, sequence: sequence, endsFrame: endsFrame, beginsKeyframe: beginsKeyframe,
                isRetransmission: isRetransmission, now: now)
            switch insertion {
            case .inOrder: delivered.append(sequence)
            case .waits, .restarted: drain()
            case .refused: break
            }
        }

        mutating func advance(to milliseconds: Int) {
            let end = Duration.milliseconds(milliseconds)
            while let wake = buffer.nextWake, wake <= end {
                now = max(now, wake)
                drain()
            }
            now = end
        }

        private mutating func drain() {
            while let next = buffer.next(now: now) {
                switch next {
                case .packet(let sequence): delivered.append(sequence)
                case .lost(let first, let count): lost += (0..<UInt16(count)).map { first &+ $0 }
                }
            }
            requested += buffer.requests(now: now)
        }
    }

    @Test func packetsInOrderPassAtOnce() {
        var line = Line()
        for number in 0..<200 { line.arrive(UInt16(truncatingIfNeeded: 65_500 + number), at: number * 4) }
        #expect(line.delivered.count == 200 && line.requested.isEmpty && line.buffer.nextWake == nil)
    }

    /// A path that carries one packet of twelve: requests would take room from what arrives. One that carries all again is
    /// repaired again.
    @Test func aPathThatIsTooNarrowIsNotAskedToRepeat() {
        var line = Line()
        for number in 0..<600 { line.arrive(UInt16(number * 12), at: number * 36) }
        #expect(line.requested.count < 1000 && line.buffer.isBeyondRepair, "\(line.requested.count) requests")
        #expect(line.delivered.count == 600 && line.buffer.nextWake == nil, "nothing is waited for")
        line.requested = []
        for number in 0..<300 { line.arrive(UInt16(7200 + number), at: 22_000 + number * 3) }
        #expect(!line.buffer.isBeyondRepair && line.requested.isEmpty)
        line.arrive(7501, at: 22_903)
        line.advance(to: 23_000)
        #expect(line.requested.first == 7500)
    }

    /// Random loss, also much of it, a long gap and disorder are repaired.
    @Test(arguments: [0.02, 0.1, 0.3, 0.4]) func lossIsRepaired(share: Double) {
        var (line, random) = (Line(), SeededGenerator(seed: 7))
        var lost: Set<UInt16> = []
        for number in 1..<4000 as Range<UInt16> {
            if number > 1, Double.random(in: 0..<1, using: &random) < share || (2000..<2100).contains(number) {
                lost.insert(number)
            } else {
                line.arrive(number, at: Int(number) * 3)
            }
            #expect(!line.buffer.isBeyondRepair)
        }
        #expect(lost.subtracting(line.requested).count <= 2, "only the end of the stream is not known")
    }

    @Test func disorderIsNoLoss() {
        var line = Line()
        for block in 0..<200 {
            for number in (0..<8).reversed() { line.arrive(UInt16(block * 8 + number), at: block * 24 + 8 - number) }
            #expect(!line.buffer.isBeyondRepair)
        }
    }

    /// The first gap is requested at once. Where packets overtake each other, later ones are waited for; where they are lost,
    /// they are not.
    @Test func requestsWaitAsLongAsPacketsAreOvertaken() {
        var line = Line()
        for pair in 0..<40 {
            line.arrive(UInt16(pair * 2 + 2), at: pair * 100 + 4)
            line.arrive(UInt16(pair * 2 + 1), at: pair * 100 + 12)
        }
        #expect(line.delivered.count == 79 && line.lost.isEmpty)
        #expect(line.requested.count < 20 && (line.requested.max() ?? 0) < 60, "\(line.requested)")
        line.requested = []
        for loss in 0..<80 {
            line.arrive(UInt16(82 + loss * 2), at: 5000 + loss * 100)
            line.arrive(UInt16(81 + loss * 2), at: 5050 + loss * 100, isRetransmission: true)
        }
        line.arrive(242, at: 14_000)
        line.advance(to: 14_001)
        #expect(line.requested.last == 241, "the delay of requests stays although nothing is overtaken")
    }

    @Test func aLossIsRequestedUntilItsDeadline() {
        var line = Line()
        line.buffer.retry = .milliseconds(100)
        line.arrive(65_535, at: 0)
        line.arrive(1, at: 10)
        #expect(line.buffer.isMissing(0) && !line.buffer.isMissing(1) && line.requested == [0])
        line.advance(to: 309)
        #expect(line.requested == [0, 0, 0] && line.delivered == [65_535])
        line.arrive(0, at: 315, isRetransmission: true)
        #expect(line.delivered == [65_535, 0, 1])
        line.arrive(3, at: 320)
        line.advance(to: 760)
        #expect(line.lost.isEmpty)
        // It was due half-way between those around it.
        line.advance(to: 770)
        #expect(line.delivered == [65_535, 0, 1, 3] && line.lost == [2] && line.requested.count == 4 + 5)
        line.arrive(2, at: 771, isRetransmission: true)
        #expect(line.delivered.last == 3, "a packet that comes too late is shown")
    }

    /// Once a whole keyframe is there, a decoder needs nothing that was lost before it, nor what follows the loss.
    @Test func aWholeKeyframeIsNotKeptBack() {
        var line = Line()
        for number in 0..<3 as Range<UInt16> { line.arrive(number, at: Int(number) * 40) }
        // 3 and 4 are lost, 5 needs them; the keyframe is 6 to 9, of which 8 is lost.
        line.arrive(5, at: 160)
        line.arrive(6, at: 200, endsFrame: false, beginsKeyframe: true)
        line.arrive(7, at: 201, endsFrame: false)
        line.arrive(9, at: 203)
        line.arrive(10, at: 240)
        #expect(line.delivered == [0, 1, 2], "the keyframe is not whole")
        line.arrive(8, at: 300, endsFrame: false, isRetransmission: true)
        #expect(line.delivered == [0, 1, 2, 6, 7, 8, 9, 10] && line.lost == [3, 4, 5])
        #expect(!line.buffer.isWaiting && !line.buffer.lacks(3))
        line.requested = []
        line.arrive(3, at: 310, isRetransmission: true)
        line.arrive(11, at: 340)
        line.advance(to: 3000)
        #expect(line.delivered.suffix(2) == [10, 11] && line.requested.isEmpty)
    }

    /// A keyframe whose end is lost, or that is behind a loss of its own beginning, waits as any frame.
    @Test func aPartOfAKeyframeEndsNoWait() {
        var line = Line()
        line.arrive(0, at: 0)
        line.arrive(2, at: 40, endsFrame: false, beginsKeyframe: true)
        // 3, its end, is lost. The end of the next frame is not its end.
        line.arrive(4, at: 80)
        line.arrive(5, at: 120)
        #expect(line.delivered == [0])
        line.arrive(1, at: 130, isRetransmission: true)
        #expect(line.delivered == [0, 1, 2])
        line.arrive(3, at: 140, isRetransmission: true)
        #expect(line.delivered == [0, 1, 2, 3, 4, 5] && line.lost.isEmpty)
    }

    @Test func aKeyframeForADecoderBeginsWithWhatTheDecoderNeeds() {
        func begins(_ codec: VideoCodec, _ payload: [UInt8]) -> Bool { payload.withUnsafeBytes(codec.beginsDecoding) }
        // A parameter set, alone and aggregated with the other one; a slice of a keyframe, of another frame, a delimiter.
        #expect(begins(.h264, [0x67, 66]) && begins(.h264, [0x78, 0, 2, 0x67, 66, 0, 2, 0x68, 1]))
        let others: [[UInt8]] = [[0x65, 0x88], [0x7c, 0x85, 0x88], [0x41, 0x9a], [0x09, 0xf0], [0x78, 0], []]
        for other in others {
            #expect(!begins(.h264, other), "\(other)")
        }
        #expect(begins(.h265, [0x40, 1, 0]) && !begins(.h265, [0x42, 1, 0]) && !begins(.h265, [0x26, 1, 0x80]))
        #expect(begins(.vp8, [0x10, 0, 0, 0]) && !begins(.vp8, [0x10, 1, 0, 0]) && !begins(.vp8, [0, 0, 0, 0]))
        #expect(begins(.vp9, [0x88, 1, 0]) && !begins(.vp9, [0xc8, 1, 0]) && !begins(.vp9, [0x80, 1, 0]))
    }

    @Test func withoutRetransmissionNothingIsRequested() {
        var line = Line(requests: false)
        line.arrive(1, at: 0)
        line.arrive(4, at: 6)
        line.advance(to: 20)
        #expect(line.lost.isEmpty)
        line.advance(to: 30)
        #expect(line.lost == [2, 3] && line.requested.isEmpty && line.delivered == [1, 4])
    }

    /// Without retransmission, the time to wait for a packet is learnt from those that came too late.
    @Test func packetsThatAreOftenOvertakenAreWaitedFor() {
        var line = Line(requests: false)
        for pair in 0..<40 {
            line.arrive(UInt16(pair * 2 + 2), at: pair * 100 + 4)
            line.arrive(UInt16(pair * 2 + 1), at: pair * 100 + 34)
        }
        #expect((1...10).contains(line.lost.count) && line.delivered.count == 79 - line.lost.count, "\(line.lost)")
        for loss in 0..<100 { line.arrive(UInt16(82 + loss * 2), at: 5000 + loss * 100) }
        line.arrive(400, at: 16_000)
        line.advance(to: 16_025)
        #expect(line.delivered.last == 400, "a path that loses packets is waited for as long as one that reorders them")
    }

    /// After a pause of the network, nothing is waited for.
    @Test func aPauseDelaysNothing() {
        var line = Line()
        line.arrive(0, at: 0)
        line.arrive(200, at: 2000)
        #expect(line.delivered == [0, 200] && line.lost.count == 199 && line.requested.isEmpty)
        line.arrive(600, at: 2010)
        #expect(line.delivered.last == 600 && line.requested.isEmpty, "too much to be requested together")
    }

    /// The oldest of too many missing packets are given up.
    @Test func aPeerThatSkipsNumbersDoesNotFillTheBuffer() {
        var line = Line()
        // Fewer than show that the path is beyond repair.
        for packet in 0..<16 { line.arrive(UInt16(truncatingIfNeeded: packet * 201), at: packet) }
        #expect(!line.buffer.isBeyondRepair && line.delivered.count >= 8, "no deadline has passed yet")
        let last = UInt16(truncatingIfNeeded: 15 * 201)
        #expect(line.buffer.isMissing(last &- 1) && !line.buffer.isMissing(last &- 1300))
        line.advance(to: 20_000)
        #expect(line.delivered.count == 16 && line.lost.count == 15 * 200 && line.buffer.nextWake == nil)
    }

    /// The last packet of a frame is lost, and no packet follows.
    @Test func theEndOfAFrameIsRequestedWithoutAFollowingPacket() {
        var line = Line()
        line.arrive(1, at: 0)
        line.arrive(2, at: 2, endsFrame: false)
        line.buffer.expectNext(within: .milliseconds(8), now: line.now)
        line.advance(to: 9)
        #expect(line.requested.isEmpty)
        line.advance(to: 11)
        #expect(line.requested == [3] && line.buffer.isMissing(3))
        line.arrive(4, at: 35)
        #expect(line.requested == [3], "it has been requested")
        line.arrive(3, at: 40, isRetransmission: true)
        #expect(line.delivered == [1, 2, 3, 4])
        line.buffer.expectNext(within: .milliseconds(8), now: line.now)
        line.arrive(5, at: 45)
        line.advance(to: 5000)
        #expect(line.requested == [3] && line.lost.isEmpty)
    }

    /// A stream that pauses in the middle of a frame loses nothing.
    @Test func whatWasNotSentIsNoLoss() {
        var line = Line()
        line.arrive(1, at: 0)
        line.buffer.expectNext(within: .milliseconds(8), now: line.now)
        line.arrive(2, at: 5000)
        #expect(line.delivered == [1, 2] && line.lost.isEmpty && line.requested == [2])
    }

    @Test func theFirstPacketMayBeOvertaken() {
        var line = Line()
        for (time, sequence) in [(0, 65_535), (1, 1), (2, 65_534), (3, 0)] as [(Int, UInt16)] {
            line.arrive(sequence, at: time, endsFrame: false)
        }
        #expect(line.delivered.isEmpty)
        line.arrive(2, at: 4)
        #expect(line.delivered == [65_534, 65_535, 0, 1, 2])
        line.arrive(65_533, at: 5)
        #expect(line.delivered.count == 5, "the stream has begun")
        line = Line()
        line.arrive(1000, at: 0, endsFrame: false)
        line.arrive(100, at: 1, endsFrame: false)
        line.arrive(1001, at: 2)
        #expect(line.delivered == [1000, 1001] && line.lost.isEmpty, "an old packet is no beginning")
    }

    @Test func aStreamBeginsWithoutTheEndOfItsFrame() {
        var line = Line()
        line.arrive(7, at: 0, endsFrame: false)
        line.arrive(8, at: 1, endsFrame: false)
        line.advance(to: 25)
        #expect(line.delivered == [7, 8])
    }

    @Test func aNewNumberingIsFollowed() {
        var line = Line()
        line.arrive(0, at: 0)
        line.arrive(20_000, at: 10)
        line.arrive(20_001, at: 12)
        #expect(line.delivered == [0, 20_000, 20_001] && line.buffer.nextWake == nil)
        for sequence: UInt16 in [40_000, 65_535, 0, 1] { line.arrive(sequence, at: 14) }
        #expect(line.delivered.suffix(3) == [65_535, 0, 1] && line.buffer.nextWake == nil)
    }

    @Test func onePacketFarAwayIsNoNewNumbering() {
        var line = Line()
        var statistics = ReceptionStatistics(clockRate: 90_000)
        for sequence: UInt16 in [2000, 2001, 900, 2002, 50_000, 2003, 50_001, 900] {
            line.arrive(sequence, at: 0)
            statistics.received(sequence: sequence, timestamp: 0, now: .zero)
        }
        #expect(line.delivered == [2000, 2001, 2002, 2003] && line.buffer.nextWake == nil)
        #expect(statistics.packetsLost == 0)
        // Counts from the packet that confirms the new numbering.
        for sequence: UInt16 in [50_000, 50_001, 50_003] {
            statistics.received(sequence: sequence, timestamp: 0, now: .zero)
        }
        #expect(statistics.packetsLost == 1)
    }

    /// Whatever comes in whatever order, packets leave in order, none twice, and none is both shown and lost.
    @Test func anyOrderIsPutInOrder() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            var line = Line()
            var arrivals = (0..<300).compactMap { number -> (Int, UInt16)? in
                Int.random(in: 0..<10, using: &random) == 0
                    ? nil
                    : (number * 5 + Int.random(in: 0..<60, using: &random), UInt16(truncatingIfNeeded: 65_400 + number))
            }
            arrivals.sort { $0.0 < $1.0 }
            for (time, sequence) in arrivals { line.arrive(sequence, at: time) }
            line.advance(to: 10_000)
            let steps = zip(line.delivered, line.delivered.dropFirst()).map { Int16(bitPattern: $1 &- $0) }
            #expect(steps.allSatisfy { $0 > 0 })
            #expect(Set(line.delivered).isDisjoint(with: line.lost))
            #expect(line.buffer.nextWake == nil)
        }
    }

    // MARK: Playout delay

    /// Frames 33 ms apart, at a playout that is to be in time for nine of ten.
    private struct Playout {
        var delay = PlayoutDelay(.video)
        var media: ClockTime = 0
        private var ready: ClockTime = 0

        /// - Parameter lateness: in ms, by the frame's number. A frame waits for the one before it.
        mutating func play(_ frames: Int, lateness: (Int) -> ClockTime) {
            for frame in 0..<frames {
                media += 33_000_000
                ready = max(ready, media + lateness(frame) * 1_000_000)
                delay.ready(after: ready - media, now: ready)
            }
        }
    }

    @Test func theDelayCoversMostFramesRisesAtOnceAndFallsSlowly() {
        var playout = Playout()
        playout.play(100) { $0 % 20 == 0 ? 30 : 5 }
        #expect(playout.delay.current == 5_000_000, "a frame in twenty may be late")
        playout.play(60) { $0 % 3 == 0 ? 30 : 5 }
        #expect(playout.delay.current == 30_000_000)
        playout.play(145) { _ in 5 }
        let before = playout.delay.current
        playout.play(1) { _ in 5 }
        #expect(playout.delay.current <= before && before - playout.delay.current <= 4_000_000)
        playout.play(60) { _ in 5 }
        #expect(playout.delay.current == 5_000_000)
    }

    /// Rare losses on a path on which a retransmission takes a quarter of a second.
    @Test func stopsThatRepeatAreCovered() {
        var playout = Playout()
        playout.play(160) { $0 % 100 == 50 ? 250 : 5 }
        #expect(playout.delay.current == 5_000_000, "two stops are tolerated")
        playout.play(60) { $0 == 50 ? 260 : 5 }
        #expect(playout.delay.target == 250_000_000, "the shortest of three stops")
        playout.play(420) { $0 % 60 == 50 ? 250 : 5 }
        #expect(playout.delay.current == 250_000_000)
        playout.play(400) { _ in 5 }
        #expect(playout.delay.current == 5_000_000)
    }

    /// The frames behind one that waited for a retransmission, or for the end of a pause, are no later on their own.
    @Test func aPauseIsNotKept() {
        var playout = Playout()
        playout.play(150) { _ in 5 }
        playout.play(100) { $0 == 0 ? 1500 : 5 }
        #expect(playout.delay.current == 5_000_000)
    }

    @Test func theDelayIsBoundedAndFollowsATimeThatGoesBack() {
        var playout = Playout()
        playout.play(60) { _ in 60_000 }
        #expect(playout.delay.current == 2_000_000_000)
        var again = Playout()
        again.delay = playout.delay
        playout = again
        playout.play(200) { _ in 5 }
        #expect(playout.delay.current == 5_000_000)
    }

    // MARK: Time

    @Test func jitterOfArrivalDoesNotReachTheTimes() {
        var random = SeededGenerator(seed: 3)
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(100))
        var times: [Int64] = []
        for frame in 0..<600 {
            let sent = Int64(frame) * 33_333_333
            let jitter = Int64.random(in: 0..<20_000_000, using: &random)
            times.append(
                clock.time(
                    of: UInt32(truncatingIfNeeded: 4_294_900_000 + frame * 3000), arrival: sent + 50_000_000 + jitter))
        }
        let steps = zip(times.dropFirst(100), times.dropFirst(101)).map { $1 - $0 }
        #expect(steps.allSatisfy { abs($0 - 33_333_333) < 300_000 }, "\(steps.min() ?? 0) to \(steps.max() ?? 0)")
        let end: Int64 = 599 * 33_333_333 + 50_000_000
        #expect(abs((times.last ?? 0) - end) < 12_000_000)
    }

    @Test func aFasterClockOfTheSenderIsFollowed() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(100))
        var (time, arrival): (Int64, Int64) = (0, 0)
        for frame in 0..<18_000 {
            // 200 ppm.
            arrival = Int64(Double(frame) * 33_333_333 * 1.0002)
            time = clock.time(of: UInt32(frame * 3000), arrival: arrival)
        }
        #expect(abs(time - arrival) < 2_000_000)
    }

    /// A path whose delay falls by 200 ms: the times of video may not be far ahead of the arrivals.
    @Test func theTimesOfVideoAreHardlyAheadOfTheArrivals() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(50))
        var leads: [Int64] = []
        for frame in 0..<300 {
            let arrival = Int64(frame) * 33_333_333 + (frame < 150 ? 300_000_000 : 100_000_000)
            leads.append(clock.time(of: UInt32(frame * 3000), arrival: arrival) - arrival)
        }
        // The frame before it keeps its time, and no frame goes back behind it.
        #expect(leads[150...].allSatisfy { $0 <= 200_000_000 } && leads[156...].allSatisfy { $0 <= 50_000_000 })
    }

    /// A path whose delay rises by 400 ms: for two seconds it is a queue, for longer it is the path.
    @Test func aQueueDoesNotMoveTheTimes() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(50))
        var delays: [Int64] = []
        for frame in 0..<900 {
            let queue: Int64 = (300..<360).contains(frame) || frame >= 500 ? 400_000_000 : 0
            let sent = Int64(frame) * 33_333_333
            delays.append(clock.time(of: UInt32(frame * 3000), arrival: sent + queue) - sent)
        }
        #expect(delays[300..<500].allSatisfy { $0 < 1_000_000 } && delays[899] > 395_000_000, "\(delays)")
    }

    @Test func timesNeverGoBackAndFollowAPause() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(100))
        var times: [Int64] = []
        var arrivals: [Int64] = []
        for frame in 0..<400 {
            // Frames 100 to 160 come together, two seconds late.
            let sent = Int64(frame) * 33_333_333
            arrivals.append((100..<160).contains(frame) ? 160 * 33_333_333 : sent)
            times.append(clock.time(of: UInt32(frame * 3000), arrival: arrivals[frame]))
        }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
        #expect(abs(times[399] - arrivals[399]) < 5_000_000)
        #expect(clock.time(of: 399 * 3000, arrival: 99_000_000_000) == times[399], "packets of a frame share its time")
    }

    @Test func aRunningTimeThatGoesBackIsFollowed() {
        var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(100))
        for frame in 0..<300 { _ = clock.time(of: UInt32(frame * 3000), arrival: Int64(frame) * 33_333_333) }
        let times = (300..<310).map { frame in
            clock.time(of: UInt32(frame * 3000), arrival: Int64(frame - 300) * 33_333_333)
        }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
        #expect(times[0] == 0 && abs(times[9] - 300_000_000) < 1_000_000, "\(times)")
    }

    /// Both streams report once a second, and video is `skew` ms later than audio.
    private struct Reports {
        var sync = StreamSynchronizer()
        var second: Int64 = 0
        private static let ms: Int64 = 1_000_000

        /// - Returns: the delay of audio in ms, negative: that of video; nil: no change.
        mutating func next(skew: Int64, audio: Bool = true, name: [UInt8] = [1]) -> Int64? {
            second += 1
            let (ntp, now) = (second * 1000 * Self.ms, Duration.seconds(second))
            sync.reported(.video, name: [1], ntp: ntp, running: ntp + (20 + skew) * Self.ms, now: now)
            if audio { sync.reported(.audio, name: name, ntp: ntp, running: ntp + 20 * Self.ms, now: now) }
            return Self.text(sync.follow(now: now))
        }

        mutating func forget(_ kind: MediaKind) -> Int64? { Self.text(sync.forget(kind)) }

        private static func text(_ delays: [MediaKind: Int64]?) -> Int64? {
            delays.map { (($0[.audio] ?? 0) - ($0[.video] ?? 0)) / ms }
        }
    }

    @Test func theEarlierStreamIsDelayed() {
        var reports = Reports()
        let delays = [60, 60, 61, -20, -20].map { reports.next(skew: $0) }
        #expect(delays == [nil, 60, nil, nil, -20], "two reports have to agree, and 1 ms is not heard")
    }

    @Test(arguments: [Int64(400), 1500, -400, -1500]) func aLargeDelayComesAndGoesInSteps(skew: Int64) {
        var reports = Reports()
        var delay: Int64 = 0
        for _ in 0..<25 {
            let next = reports.next(skew: skew) ?? delay
            #expect(abs(next - delay) <= 80)
            delay = next
        }
        #expect(delay == skew)
        // Without reports of audio it stays for ten seconds and then goes.
        for second in 1...40 {
            let next = reports.next(skew: skew, audio: false) ?? delay
            #expect(second < 10 ? next == delay : abs(next - delay) <= 80)
            delay = next
        }
        #expect(delay == 0)
    }

    @Test func anotherStreamOrNameEndsTheDelay() {
        var reports = Reports()
        for _ in 0..<10 { _ = reports.next(skew: 400) }
        let forgotten = [reports.forget(.audio), reports.forget(.audio)]
        #expect(forgotten == [0, nil])
        let again = [reports.next(skew: 400), reports.next(skew: 400)]
        #expect(again == [nil, 80])
        let apart = [reports.next(skew: 400, name: [2]), reports.next(skew: 400, name: [2])]
        #expect(apart == [0, nil], "they share no clock")
    }

    @Test func aSingleReportOrImpossibleOnesChangeNothing() {
        var reports = Reports()
        for _ in 0..<10 { _ = reports.next(skew: 400) }
        let delays = [2000, 400, 8000].map { reports.next(skew: $0) }
        #expect(delays == [nil, nil, nil])
    }

    @Test func impossibleTimesOfAPeerDoNotTrap() {
        var sync = StreamSynchronizer()
        var now = Duration.zero
        for (ntp, running) in [(Int64.max, Int64.min), (.min, .max), (0, .max), (.max, 0), (-1, .max)] {
            for _ in 0..<2 { sync.reported(.video, name: [], ntp: ntp, running: running, now: now) }
            for (ntp, running) in [(Int64.max, Int64.min), (.min, .max), (.min, 0), (0, .min)] {
                for _ in 0..<2 { sync.reported(.audio, name: [], ntp: ntp, running: running, now: now) }
                now += .seconds(1)
                let delays = sync.follow(now: now)
                #expect(delays?.values.allSatisfy { (0...3_000_000_000).contains($0) } ?? true)
            }
        }
        var clock = PlayoutClock(clockRate: 1, largestLead: .milliseconds(100))
        for step in 0..<100 {
            #expect(clock.time(of: UInt32(truncatingIfNeeded: step &* 0x7fff_ffff), arrival: Int64(step)) >= 0)
        }
    }

    @Test func timesOfReportsHaveTheirFraction() {
        #expect(NTPTime.nanoseconds(5 << 32 | 1 << 31) == 5_500_000_000)
        #expect(NTPTime.nanoseconds(4_000_000_000 << 32 | 0xffff_ffff) == 4_000_000_000_999_999_999)
        let (first, second) = (NTPTime.now, NTPTime.now)
        #expect(second >= first && NTPTime.nanoseconds(second &- first) < 60_000_000_000)
    }

    // MARK: Reports

    @Test func reportsCountWhatIsMissing() throws {
        var statistics = ReceptionStatistics(clockRate: 90_000)
        for number in 0..<100 where number % 4 != 3 {
            statistics.received(
                sequence: UInt16(truncatingIfNeeded: 65_500 + number), timestamp: UInt32(number * 900),
                now: .milliseconds(number * 10))
        }
        statistics.senderReported(0xabcd_1234, now: .milliseconds(900))
        let first = statistics.report(on: 5, now: .milliseconds(1400))
        let report = try #require(first)
        #expect(report.ssrc == 5 && report.packetsLost == 24 && report.fractionLost == 62)
        #expect(report.highestSequence == 65_598 && report.jitter == 0)
        #expect(report.lastSenderReport == 0xabcd_1234 && report.delaySinceLastSenderReport == 32_768)
        let next = statistics.report(on: 5, now: .seconds(2))
        #expect(next == nil, "nothing arrived since")
        for number in 99..<199 {
            statistics.received(
                sequence: UInt16(truncatingIfNeeded: 65_500 + number), timestamp: UInt32(number * 900),
                now: .milliseconds(number * 10))
        }
        let later = statistics.report(on: 5, now: .seconds(3))
        #expect(later?.packetsLost == 24 && later?.fractionLost == 0, "the fraction is that since the last report")
        let compound = RTCPPackets.receiverReport(9, [report])
        #expect(compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.receptionReports == [report])
    }

    /// The reports are those of every 100 ms again as soon as the media are sent again.
    @Test func reportsAreFewWhileNoMediaAreSent() {
        var session = InboundRTP(.video, storage: SimulatedPacket.self)
        var random = SeededGenerator(seed: 5)
        session.configure(RTPSessionParameters(clockRate: 90_000, ssrc: 1, cname: "a"))
        session.startReports(now: .zero)
        var reports: [Int] = []
        for (second, areReduced) in [(1, true), (20, false), (21, false)] {
            var count = 0
            while let wake = session.nextWake, wake <= .seconds(second) {
                session.wake(at: wake, senders: { [] }, using: &random) { _ in count += 1 }
            }
            session.setReports(areReduced: areReduced, now: .seconds(second))
            reports.append(count)
        }
        #expect((8...13).contains(reports[0]) && reports[1] == 1 && (8...13).contains(reports[2]), "\(reports)")
    }

    /// Packets with transport-wide numbers are reported within 100 ms all the same.
    @Test func reportsAreFewWhereREMBIsTheFeedback() {
        var session = InboundRTP(.video, storage: SimulatedPacket.self)
        var random = SeededGenerator(seed: 5)
        var parameters = RTPSessionParameters(clockRate: 90_000, ssrc: 1, cname: "a")
        (parameters.usesREMB, parameters.transportWideCC) = (true, 3)
        session.configure(parameters)
        session.startReports(now: .zero)
        var reports = 0
        while let wake = session.nextWake, wake <= .seconds(10) {
            session.wake(at: wake, senders: { [] }, using: &random) { _ in reports += 1 }
        }
        #expect((16...27).contains(reports))
        let packet: [UInt8] = [0x90, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0xbe, 0xde, 0, 1, 3 << 4 | 1, 0, 5, 0, 1, 2]
        packet.withUnsafeBytes {
            session.received(rtp: $0, activeType: 96, now: .seconds(10), running: { 0 }) { _ in }
        }
        #expect(session.nextWake.map { $0 <= .milliseconds(10_100) } == true)
        var feedback = 0
        session.wake(at: .milliseconds(10_100), senders: { [] }, using: &random) { action in
            guard case .rtcp(let compound) = action else { return }
            feedback += compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.transportFeedback.count
        }
        #expect(feedback == 1)
    }

    @Test func feedbackIsReadAsItWasWritten() throws {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<100 {
            var recorder = TransportFeedbackRecorder()
            var arrivals: [UInt16: Int64] = [:]
            var reported: [UInt16: Int64] = [:]
            var clock = ArrivalClock()
            var (time, sequence) = (Int64.random(in: 0..<1_000_000_000_000, using: &random), UInt16(65_000))
            for _ in 0..<20 {
                for _ in 0..<Int.random(in: 0..<60, using: &random) {
                    sequence &+= Int.random(in: 0..<8, using: &random) == 0 ? 3 : 1
                    time += Int64.random(in: 0..<20_000, using: &random)
                    arrivals[sequence] = time
                    recorder.received(sequence, now: .microseconds(time))
                }
                if Int.random(in: 0..<10, using: &random) == 0 { time += 9_000_000 }
                while let body = recorder.takeFeedback() {
                    let compound = RTCPPackets.transportFeedback(body, from: 1, to: 2)
                    let read = compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.transportFeedback
                    let feedback = try #require(read.first)
                    let reference = clock.microseconds(reference: feedback.referenceTime)
                    for packet in feedback.packets {
                        if case .received(let after) = packet.status { reported[packet.sequence] = reference + after }
                    }
                }
            }
            #expect(Set(reported.keys) == Set(arrivals.keys))
            #expect(arrivals.allSatisfy { abs((reported[$0.key] ?? 0) - $0.value) <= 250 })
        }
    }

    @Test func aLateArrivalIsReportedAfterAll() throws {
        var recorder = TransportFeedbackRecorder()
        func feedbackPackets() throws -> [TransportFeedback.Packet] {
            let feedback = recorder.takeFeedback()
            let body = try #require(feedback)
            let compound = RTCPPackets.transportFeedback(body, from: 1, to: 2)
            return try #require(compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.transportFeedback.first).packets
        }
        for sequence in [1, 2, 4] as [UInt16] { recorder.received(sequence, now: .milliseconds(Int(sequence))) }
        #expect(try feedbackPackets().map { $0.status == .lost } == [false, false, true, false])
        #expect(recorder.isEmpty)
        recorder.received(3, now: .milliseconds(6))
        recorder.received(7, now: .milliseconds(7))
        let again = try feedbackPackets()
        #expect(again.map(\.sequence) == [3, 4, 5, 6, 7])
        #expect(again.map { $0.status == .lost } == [false, false, true, true, false])
    }

    /// Numbers so far apart that each has a feedback of its own. The time limit is many times what this takes.
    @Test func feedbackOfScatteredNumbersTakesLinearTime() {
        var recorder = TransportFeedbackRecorder()
        for packet in 0..<10_000 {
            recorder.received(UInt16(truncatingIfNeeded: packet * 2999), now: .microseconds(packet))
            // Out of order with the one before it.
            recorder.received(UInt16(truncatingIfNeeded: packet * 2999 - 7), now: .microseconds(packet))
        }
        var bodies = 0
        while recorder.takeFeedback() != nil { bodies += 1 }
        #expect(bodies == 10_000 && recorder.isEmpty)
    }

    @Test func aLateArrivalDoesNotRepeatTheFeedbackBehindIt() {
        var recorder = TransportFeedbackRecorder()
        for sequence: UInt16 in 0..<500 where sequence != 100 {
            recorder.received(sequence, now: .milliseconds(Int(sequence)))
        }
        while recorder.takeFeedback() != nil {}
        recorder.received(100, now: .milliseconds(500))
        recorder.received(500, now: .milliseconds(501))
        var ranges: [[UInt8]] = []
        while let body = recorder.takeFeedback() { ranges.append(Array(body[..<4])) }
        #expect(ranges == [[0, 100, 0, 250], [1, 0xf4, 0, 1]])
    }

    // MARK: Retransmission

    @Test func requestsAreReadAsTheyWereWritten() {
        let wanted: [UInt16] = [65_530, 65_535, 3, 10, 11, 40]
        let compound = RTCPPackets.receiverReport(1) + RTCPPackets.nack(wanted, from: 1, to: 2)
        let nacks = compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.nacks
        #expect(nacks.map(\.ssrc) == [2] && nacks.first?.sequences == wanted)
    }

    @Test func namesAndKeyframeRequestsAreRead() {
        let compound =
            RTCPPackets.receiverReport(1) + RTCPPackets.sourceDescription([7, 8], cname: "abcd")
            + RTCPPackets.pictureLossIndication(from: 1, to: 9)
        // Truncated at each place.
        for end in 0..<compound.count { _ = compound[..<end].withUnsafeBytes { RTCPCompound(parsing: $0) } }
        let read = compound.withUnsafeBytes { RTCPCompound(parsing: $0) }
        #expect(read.names.map(\.ssrc) == [7, 8])
        #expect(read.names.allSatisfy { $0.cname == Array("abcd".utf8) } && read.keyframeRequests == [9])
    }

    @Test func aRetransmissionRestoresItsPacket() throws {
        GStreamerRuntime.initialise()
        var stream = SentStream(retransmission: (ssrc: 0x0a0b_0c0d, payloadType: 97), firstSequence: 65_535)
        func packet(_ sequence: UInt16) -> [UInt8] {
            [0x90, 0xe0, UInt8(sequence >> 8), UInt8(truncatingIfNeeded: sequence), 0, 0, 0, 9, 1, 2, 3, 4]
                + [0xbe, 0xde, 0, 1, 0x10, 0x30, 0, 0] + [UInt8(truncatingIfNeeded: sequence), 5, 6]
        }
        var retired: [any PacketStorage] = []
        for number in 0..<600 {
            let bytes = packet(UInt16(truncatingIfNeeded: 65_300 + number))
            bytes.withUnsafeBytes {
                stream.sent(Buffer(copying: $0), $0, running: 0, now: .milliseconds(number), retired: &retired)
            }
        }
        #expect(retired.count == 600 - 512)
        #expect(stream.packets == 600 && stream.octets == 1800)
        let now = Duration.milliseconds(600)
        let oldest = stream.makeRetransmission(of: 65_301, now: now)
        #expect(oldest == nil, "too old")
        #expect(stream.size(of: 65_301, now: now) == nil && stream.size(of: 365, now: now) == nil)
        #expect((0..<512 as Range<UInt16>).allSatisfy { stream.size(of: 363 &- $0, now: now) == 23 })
        for (sequence, own) in [(65_500, 65_535), (300, 0)] as [(UInt16, UInt16)] {
            let found = stream.makeRetransmission(of: sequence, now: now)
            let retransmission = try #require(found)
            #expect(retransmission[1] == 0x80 | 97 && Array(retransmission[8..<12]) == [0x0a, 0x0b, 0x0c, 0x0d])
            #expect(UInt16(retransmission[2]) << 8 | UInt16(retransmission[3]) == own)
            let restored = retransmission.withUnsafeBytes { RTPHeader.restore($0, payloadType: 96, ssrc: 0x0102_0304) }
            #expect(restored?.sequence == sequence && restored?.packet == packet(sequence))
        }
        let last = stream.makeRetransmission(of: 300, now: .seconds(5))
        #expect(last == nil, "too old")
        let padding: [UInt8] = [0xa0, 97, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4, 0, 0, 0, 4]
        #expect(padding.withUnsafeBytes { RTPHeader.restore($0, payloadType: 96, ssrc: 1) } == nil)
    }
}
