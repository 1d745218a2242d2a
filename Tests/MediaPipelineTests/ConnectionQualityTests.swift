import FoundationEssentials
import MediaPipeline
import Testing

@Suite struct ConnectionQualityTests {
    /// A second of a session at 30 fps.
    private struct Second {
        var sent: UInt64 = 30
        var received: UInt64 = 30
        var busy: UInt64 = 0
        var packets: UInt64 = 200
        var lost = 0
        var fractionLost = 0.0
        var roundTrip = Duration.milliseconds(20)
        var isRelayed = false
        var glassToGlass: Duration?
        var bandwidth = 1.0
        var cpu = 1.0
    }

    private struct Session {
        var judge = QualityJudge()
        var reading = QualityReading()

        /// Adds seconds; returns how often the verdict changed.
        mutating func run(_ count: Int, _ second: Second) -> Int {
            var changes = 0
            for _ in 0..<count {
                reading.framesIn += second.sent + second.busy
                reading.framesSent += second.sent
                reading.framesReceived += second.received
                reading.framesBusy += second.busy
                reading.packetsReceived += second.packets
                reading.packetsLost = (reading.packetsLost ?? 0) + second.lost
                reading.packetsSent += 1000
                reading.remotePacketsLost = (reading.remotePacketsLost ?? 0) + Int(second.fractionLost * 1000)
                (reading.roundTrip, reading.isRelayed) = (second.roundTrip, second.isRelayed)
                (reading.glassToGlass, reading.bandwidthRatio) = (second.glassToGlass, second.bandwidth)
                reading.cpuRatio = second.cpu
                if judge.add(reading) { changes += 1 }
            }
            return changes
        }
    }

    private func verdict(after seconds: Int = 20, of second: Second) -> QualityJudge.Verdict {
        var session = Session()
        _ = session.run(seconds, second)
        return session.judge.verdict
    }

    /// Readings begin with the connection: the third one is not later than two seconds after it.
    @Test func theFirstVerdictComesSoon() {
        #expect(verdict(after: 2, of: Second()) == .init())
        for seconds in 3...7 {
            var session = Session()
            #expect(session.run(seconds, Second()) == 1)
            #expect(session.judge.verdict == .init(quality: .excellent) && session.judge.isWarmingUp)
        }
        var session = Session()
        #expect(session.run(8, Second()) == 1 && !session.judge.isWarmingUp)
    }

    /// A model's first frames take their time, and a bitrate rises; the rest is judged.
    @Test func aFirstVerdictIsOfWhatIsKnown() {
        let young = Second(received: 0, glassToGlass: .seconds(4), bandwidth: 0.3)
        #expect(verdict(after: 7, of: young) == .init(quality: .excellent))
        #expect(verdict(after: 8, of: young) == .init(quality: .critical, factor: .stall))
        let slow = verdict(after: 3, of: Second(roundTrip: .milliseconds(400)))
        #expect(slow == .init(quality: .poor, factor: .latency))
        let lossy = verdict(after: 3, of: Second(fractionLost: 0.03))
        #expect(lossy == .init(quality: .poor, factor: .loss))
        #expect(verdict(after: 3, of: Second(cpu: 0.33)) == .init(quality: .poor, factor: .cpu))
    }

    /// What is known after the warm-up counts at once, without the hysteresis of a change.
    @Test func theFirstVerdictBindsNothing() {
        var session = Session()
        _ = session.run(5, Second())
        #expect(session.judge.verdict == .init(quality: .excellent))
        #expect(session.run(3, Second(bandwidth: 0.3)) == 1)
        #expect(session.judge.verdict == .init(quality: .critical, factor: .bandwidth))
    }

    @Test func theFiguresAreThoseOfTheVerdict() {
        var session = Session()
        #expect(session.judge.figures == QualityJudge.Figures())
        let second = Second(
            sent: 28, received: 25, fractionLost: 0.03, glassToGlass: .milliseconds(600), cpu: 0.5)
        _ = session.run(6, second)
        var figures = QualityJudge.Figures()
        (figures.roundTrip, figures.glassToGlass) = (.milliseconds(20), .milliseconds(600))
        (figures.loss, figures.bandwidthRatio, figures.cpuRatio) = (0.03, 1, 0.5)
        (figures.framesSent, figures.framesReceived) = (28, 25)
        #expect(session.judge.figures == figures)
    }

    @Test(arguments: [
        (150, ConnectionQuality.excellent), (151, .good), (300, .good), (301, .poor), (500, .poor), (501, .critical),
    ])
    func roundTrip(milliseconds: Int, quality: ConnectionQuality) {
        #expect(verdict(of: Second(roundTrip: .milliseconds(milliseconds))).quality == quality)
        // A relay may take 100 ms more.
        #expect(verdict(of: Second(roundTrip: .milliseconds(milliseconds + 100), isRelayed: true)).quality == quality)
    }

    @Test(arguments: [(500, ConnectionQuality.excellent), (501, .good), (901, .poor), (1501, .critical)])
    func glassToGlass(milliseconds: Int, quality: ConnectionQuality) {
        let verdict = verdict(of: Second(glassToGlass: .milliseconds(milliseconds)))
        #expect(verdict == .init(quality: quality, factor: quality == .excellent ? .none : .latency))
    }

    @Test(arguments: [(0.001, ConnectionQuality.excellent), (0.005, .good), (0.03, .poor), (0.08, .critical)])
    func loss(fraction: Double, quality: ConnectionQuality) {
        let factor: LimitingFactor = quality == .excellent ? .none : .loss
        #expect(verdict(of: Second(fractionLost: fraction)) == .init(quality: quality, factor: factor))
        // The other direction counts too.
        let lost = Int(fraction * 100_000)
        let verdict = verdict(of: Second(packets: UInt64(100_000 - lost), lost: lost))
        #expect(verdict == .init(quality: quality, factor: factor))
    }

    @Test(arguments: [(1.0, ConnectionQuality.excellent), (0.9, .good), (0.6, .poor), (0.3, .critical)])
    func bandwidth(ratio: Double, quality: ConnectionQuality) {
        let factor: LimitingFactor = quality == .excellent ? .none : .bandwidth
        #expect(verdict(of: Second(bandwidth: ratio)) == .init(quality: quality, factor: factor))
    }

    @Test func framesThatDoNotComeBackAreTheServices() {
        #expect(verdict(of: Second(received: 20)) == .init(quality: .good, factor: .service))
        #expect(verdict(of: Second(received: 10)) == .init(quality: .poor, factor: .service))
        #expect(verdict(of: Second(received: 4)) == .init(quality: .critical, factor: .service))
        #expect(verdict(of: Second(received: 0)) == .init(quality: .critical, factor: .stall))
    }

    @Test func framesThatTheMachineLosesAreTheProcessors() {
        #expect(verdict(of: Second(sent: 28, received: 28, busy: 2)) == .init(quality: .critical, factor: .cpu))
    }

    /// Half of the frame rate is what a service may give too. The delay is an effect.
    @Test(arguments: [(0.66, ConnectionQuality.good), (0.5, .good), (0.33, .poor), (0.16, .critical)])
    func framesThatTheCPUDoesNotCarryAreTheProcessors(ratio: Double, quality: ConnectionQuality) {
        let second = Second(sent: 12, received: 12, glassToGlass: .milliseconds(600), cpu: ratio)
        #expect(verdict(of: second) == .init(quality: quality, factor: .cpu))
    }

    /// A slow input is no fault of the session.
    @Test func aSlowInputIsExcellent() {
        #expect(verdict(of: Second(sent: 3, received: 3)).quality == .excellent)
        #expect(verdict(of: Second(sent: 0, received: 0)).quality == .excellent)
    }

    @Test func aCauseIsNamedBeforeItsEffect() {
        let congested = Second(received: 12, fractionLost: 0.03, bandwidth: 0.3)
        #expect(verdict(of: congested) == .init(quality: .critical, factor: .bandwidth))
    }

    /// A narrow network makes a queue; a long path does not.
    @Test func aDelayOfAQueueIsTheBandwidths() {
        var session = Session()
        _ = session.run(5, Second(roundTrip: .milliseconds(40), bandwidth: 0.3))
        _ = session.run(20, Second(roundTrip: .milliseconds(700), bandwidth: 0.3))
        #expect(session.judge.verdict == .init(quality: .critical, factor: .bandwidth))
        #expect(
            verdict(of: Second(roundTrip: .milliseconds(700), bandwidth: 0.3))
                == .init(quality: .critical, factor: .latency))
    }

    @Test func aChangeTakesFiveReadings() {
        var session = Session()
        _ = session.run(20, Second())
        // The median follows after three of them.
        var seconds = 0
        while session.judge.verdict.quality == .excellent, seconds < 30 {
            _ = session.run(1, Second(roundTrip: .milliseconds(1000)))
            seconds += 1
        }
        #expect((7...9).contains(seconds), "\(seconds) s")
        #expect(session.judge.verdict == .init(quality: .critical, factor: .latency))
    }

    @Test func aShortDisturbanceChangesNothing() {
        var session = Session()
        #expect(session.run(30, Second()) == 1)
        #expect(session.run(1, Second(received: 0, fractionLost: 0.3, roundTrip: .milliseconds(400))) == 0)
        _ = session.run(1, Second())
        #expect(session.judge.verdict.quality == .excellent)
    }
}

/// Ten minutes of statistics, one row a second, of sessions over emulated links: `wifi` has 5 ms delay, 2 ms jitter and
/// 1 % loss each way, `cellular` 50 ms, 15 ms and 2 %. The machine was busy at times; its drops (`busy`) are left out.
@Suite struct RecordedQualityTests {
    private func readings(_ name: String) throws -> [QualityReading] {
        let file = "\(#filePath.dropLast("ConnectionQualityTests.swift".count))Recordings/\(name).csv"
        let text = String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
        return try text.split(separator: "\n").dropFirst().map { line in
            let values = line.split(separator: ",").compactMap { Double($0) }
            try #require(values.count == 11)
            var reading = QualityReading()
            reading.framesIn = UInt64(values[0])
            reading.framesSent = UInt64(values[1])
            reading.framesReceived = UInt64(values[2])
            reading.packetsReceived = UInt64(values[4])
            reading.packetsLost = values[5] < 0 ? nil : Int(values[5])
            reading.packetsSent = UInt64(values[6])
            reading.remotePacketsLost = values[7] < 0 ? nil : Int(values[7])
            reading.roundTrip = values[8] < 0 ? nil : .microseconds(Int64(values[8]))
            reading.bandwidthRatio = values[10] == 1 ? values[9] / 2_500_000 : 1
            return reading
        }
    }

    @Test(arguments: ["wifi", "cellular"]) func aSteadyLinkKeepsItsVerdict(name: String) throws {
        let readings = try readings(name)
        #expect(readings.count == 600)
        var judge = QualityJudge()
        var history: [String] = []
        for (second, reading) in readings.enumerated() where judge.add(reading) {
            history.append("\(second) s: \(judge.verdict.quality) (\(judge.verdict.factor))")
        }
        #expect(history.count == 1, "\(history.joined(separator: "; "))")
    }
}
