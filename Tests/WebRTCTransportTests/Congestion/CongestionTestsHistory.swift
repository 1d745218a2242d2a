import RTP
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct SentPacketHistoryTests {
    @Test
    func remembersAsManyAsItHasRoomFor() {
        var history = SentPacketHistory()
        #expect(history.entry(0) == nil)
        for index in 0..<5000 {
            history.record(sequence: UInt16(truncatingIfNeeded: 64_000 + index), size: 100 + index, now: Int64(index))
        }
        // The sum of 100, 101, … 5099.
        let total: UInt64 = 5000 * (100 + 5099) / 2
        #expect(history.totalBytes == total)
        // The kept range contains a wrap; an overwritten sequence number must not match the entry that replaced it.
        #expect(history.entry(UInt16(truncatingIfNeeded: 64_000 + 4999))?.sendTime == 4999)
        #expect(
            history.entry(UInt16(truncatingIfNeeded: 64_000 + 5000 - SentPacketHistory.capacity))?.size
                == Int32(100 + 5000 - 4096))
        #expect(history.entry(64_000) == nil)
        history.record(sequence: nil, size: 7, now: 1)
        #expect(history.totalBytes == total + 7)
    }

    private func feedback(_ base: UInt16, _ arrivals: [Int64?], count: UInt8) throws -> TransportFeedback {
        try #require(
            FeedbackBytes.parse(FeedbackBytes.message(base: base, arrivals: arrivals, feedbackCount: count)).first)
    }

    private func sent(_ count: Int, from base: UInt16 = 10) -> SentPacketHistory {
        var history = SentPacketHistory()
        for index in 0..<count { history.record(sequence: base &+ UInt16(index), size: 1000, now: Int64(index) * 1000) }
        return history
    }

    @Test
    func countsPacketsOfFullLengthApart() throws {
        var history = SentPacketHistory()
        for (index, size) in [1160, 1150, 1120, 400, 1160].enumerated() {
            history.record(sequence: UInt16(10 + index), size: size, now: 0)
        }
        // Padding may be longer than what the payloader makes, and sets no length.
        history.record(sequence: 15, size: 1400, .padding, now: 0)
        var resolver = FeedbackAdapter()
        let result = resolver.resolve(try feedback(10, [nil, 1000, nil, 1000, nil, nil], count: 0), with: &history)
        #expect((result.lost, result.received) == (4, 2))
        #expect((result.full.lost, result.full.received) == (3, 1))
        // Short packets have no full length.
        history = sent(2)
        let short = resolver.resolve(try feedback(10, [nil, nil], count: 1), with: &history)
        #expect((short.lost, short.full.lost) == (2, 0))
    }

    @Test
    func joinsArrivalsWithWhatWasSent() throws {
        var history = sent(4)
        var resolver = FeedbackAdapter()
        let result = resolver.resolve(try feedback(10, [128_000, nil, 130_000, 131_000], count: 0), with: &history)
        #expect(
            result.arrivals == [
                .init(sendTime: 0, arrival: 128_000, size: 1000), .init(sendTime: 2000, arrival: 130_000, size: 1000),
                .init(sendTime: 3000, arrival: 131_000, size: 1000),
            ])
        #expect((result.lost, result.received, result.recovered) == (1, 3, 0))
        #expect(result.newestSendTime == 3000)
        // Repeated feedback adds nothing, except that a packet first reported lost counts as recovered.
        let again = resolver.resolve(try feedback(10, [128_000, 140_000, 130_000, 131_000], count: 1), with: &history)
        #expect((again.lost, again.received, again.recovered) == (0, 1, 1))
        #expect(again.arrivals.map(\.sendTime) == [1000])
    }

    @Test
    func aGapBetweenFeedbacksIsLossUnlessFeedbackWasLost() throws {
        var history = sent(10)
        var resolver = FeedbackAdapter()
        _ = resolver.resolve(try feedback(10, [0, 1000], count: 255), with: &history)
        let next = resolver.resolve(try feedback(14, [2000], count: 0), with: &history)
        #expect((next.lost, next.received, next.unreportedBytes) == (2, 1, 0))
        let afterMissing = resolver.resolve(try feedback(18, [9000], count: 2), with: &history)
        #expect((afterMissing.lost, afterMissing.received, afterMissing.unreportedBytes) == (0, 1, 3000))
    }

    /// Late feedback counts only for its own packets; the gap before the overtaking feedback is not evaluated again.
    @Test
    func lateFeedbackMovesNothingBack() throws {
        var history = sent(10)
        var resolver = FeedbackAdapter()
        _ = resolver.resolve(try feedback(10, [0, 1000], count: 0), with: &history)
        let overtaking = resolver.resolve(try feedback(14, [4000], count: 2), with: &history)
        #expect((overtaking.lost, overtaking.received, overtaking.unreportedBytes) == (0, 1, 2000))
        let late = resolver.resolve(try feedback(12, [2000], count: 1), with: &history)
        #expect((late.lost, late.received, late.unreportedBytes) == (0, 1, 0))
        let next = resolver.resolve(try feedback(15, [5000], count: 3), with: &history)
        #expect((next.lost, next.received, next.unreportedBytes) == (0, 1, 0))
    }

    @Test
    func unknownNumbersAreIgnored() throws {
        var history = sent(2)
        var resolver = FeedbackAdapter()
        let result = resolver.resolve(try feedback(5000, [0, nil, 1000], count: 0), with: &history)
        #expect((result.lost, result.received, result.arrivals.count) == (0, 0, 0))
        #expect(result.newestSendTime == nil)
        // A jump of the base sequence number does not mark the packets in between as lost.
        let back = resolver.resolve(try feedback(10, [0, 1000], count: 1), with: &history)
        #expect((back.lost, back.received) == (0, 2))
    }
}

@Suite(.timeLimit(.minutes(1)))
struct FullPacketWatchTests {
    /// Feedback of 100 ms, and the first time at which the watch says that packets of full length vanish.
    private func verdict(_ feedback: (_ step: Int) -> (full: (lost: Int, received: Int), received: Int)) -> Int? {
        var watch = FullPacketWatch()
        return (0..<50).first { step in
            var resolved = ResolvedFeedback()
            (resolved.full, resolved.received) = feedback(step)
            resolved.lost = resolved.full.lost
            return watch.update(resolved, now: Int64(step) * 100_000)
        }
    }

    @Test func saysSoAfterASecond() {
        #expect(verdict { _ in ((4, 0), 1) } == 10)
        // Few packets take longer.
        #expect(verdict { _ in ((1, 0), 1) } == 19)
    }

    @Test func otherLossesAreNone() {
        #expect(verdict { _ in ((4, 1), 2) } == nil, "a path that loses most packets")
        #expect(verdict { $0 % 8 == 0 ? ((0, 1), 1) : ((4, 0), 1) } == nil, "bursts of losses")
        #expect(verdict { _ in ((4, 0), 0) } == nil, "an outage")
        #expect(verdict { _ in ((0, 0), 4) } == nil, "short packets alone")
    }

    /// Reports of 500 ms about a stream of 8 full packets and 4 short ones each: the losses beside what was lost before.
    private func verdict(reports lost: (_ step: Int) -> Int) -> Int? {
        var (watch, history) = (FullPacketWatch(), SentPacketHistory())
        var (number, total) = (UInt32(65_500), 0)
        return (0..<50).first { step in
            for index in 0..<12 {
                number += 1
                history.record(
                    sequence: nil, size: index < 8 ? 1150 : 400, number: UInt16(truncatingIfNeeded: number), now: 0)
            }
            total += lost(step)
            let report = ReceptionReport(
                ssrc: 1, fractionLost: 0, packetsLost: total, highestSequence: number, lastSenderReport: 0,
                delaySinceLastSenderReport: 0)
            let full = history.fullPackets(upTo: UInt16(truncatingIfNeeded: number))
            return watch.update(report, full: full, now: Int64(step) * 500_000)
        }
    }

    @Test func reportsSaySoToo() {
        #expect(verdict(reports: { _ in 8 }) == 3)
        // The last packet of a report may be counted in the next one.
        #expect(verdict(reports: { $0 % 2 == 0 ? 7 : 9 }) == 3)
        #expect(verdict(reports: { _ in 6 }) == nil, "some full packets arrive")
        #expect(verdict(reports: { _ in 12 }) == nil, "an outage")
        #expect(verdict(reports: { _ in 0 }) == nil)
        #expect(verdict(reports: { $0 % 3 == 0 ? 1 : 8 }) == nil, "bursts of losses")
        #expect(verdict(reports: { $0 == 9 ? -1_000_000 : 8_000_000 }) == nil, "nonsense")
    }

    @Test func aNumberThatIsForgottenIsNotKnown() {
        var history = SentPacketHistory()
        history.record(sequence: nil, size: 1150, number: 5, now: 0)
        #expect(history.fullPackets(upTo: 5) == 1 && history.fullPackets(upTo: 6) == nil)
        history.record(
            sequence: nil, size: 1150, number: 5 + UInt16(SentPacketHistory.capacity), now: 0)
        #expect(history.fullPackets(upTo: 5) == nil)
    }

    @Test func saysSoOnce() {
        var (watch, said) = (FullPacketWatch(), 0)
        for step in 0..<100 {
            var resolved = ResolvedFeedback()
            (resolved.full, resolved.received) = ((4, 0), 1)
            if watch.update(resolved, now: Int64(step) * 100_000) { said += 1 }
        }
        #expect(said == 1)
    }
}
