import MediaPipeline
import Testing

/// A machine on virtual time that carries some frames a second; 30 frames a second come in.
@Suite struct CPULoadControllerTests {
    private struct Machine {
        var controller = CPULoadController(frameRate: 30)
        var inputRate = 30.0
        /// Frames a second that the thread of the encoder carries, and that of the decoder.
        var encoding = 120.0
        var decoding = 240.0
        /// Frames a second that the process may carry. Its threads show nothing of that limit below it.
        var quota = 1000.0
        /// Frames a second that the queue loses on an idle machine.
        var burstLoss = 0.0
        /// Time for which the slowest frame keeps its thread.
        var slowest = Duration.zero
        private(set) var reading = CPULoadController.Reading()
        private(set) var now = Duration.zero
        private(set) var lostSeconds = 0.0
        fileprivate var frames = (arrived: 0.0, sent: 0.0, lost: 0.0)

        /// Returns the frame rates that the controller sets within this time; 0: all frames.
        @discardableResult
        mutating func run(_ seconds: Int) -> [Int] {
            var changes: [Int] = []
            let step = 0.05
            for _ in 0..<(seconds * 20) {
                let wanted = min(controller.frameRate.map(Double.init) ?? inputRate, inputRate)
                let sent = min(wanted, encoding, quota) - burstLoss
                frames.arrived += inputRate * step
                frames.sent += sent * step
                frames.lost += (wanted - sent) * step
                if wanted > sent { lostSeconds += step }
                let isStopped = wanted > quota
                work(isStopped ? 1 : min(wanted / encoding, 1), isStopped ? 1 : min(sent / decoding, 1), step)
                if controller.needsReading(at: now), controller.frame(reading, now: now) {
                    changes.append(controller.frameRate ?? 0)
                }
            }
            return changes
        }

        private mutating func work(_ sending: Double, _ receiving: Double, _ seconds: Double) {
            now += .milliseconds(Int(seconds * 1000))
            reading.longestWork = slowest
            reading.sending += .seconds(sending * seconds)
            reading.receiving += .seconds(receiving * seconds)
            reading.framesIn = UInt64(frames.arrived)
            (reading.framesSent, reading.framesLost) = (UInt64(frames.sent), UInt64(frames.lost))
        }

        /// The process is stopped while its threads work.
        mutating func stop(_ seconds: Int) { work(1, 1, Double(seconds)) }
    }

    @Test(arguments: [30.0, 31, 40, 120, 10_000])
    func aMachineThatCarriesAllFramesSendsThem(capacity: Double) {
        var machine = Machine(encoding: capacity, decoding: max(capacity, 32))
        #expect(machine.run(120).isEmpty)
        #expect(machine.controller.share == 1)
    }

    /// The first step suffices, and comes within six seconds.
    @Test(arguments: [(24.0, 22), (18, 17), (14, 13), (12, 11), (9, 8), (7, 6), (1, 5)])
    func aSlowMachineSendsWhatItCarries(capacity: Double, rate: Int) {
        var machine = Machine()
        machine.run(20)
        machine.encoding = capacity
        #expect(machine.run(6) == [rate])
        // The frame rate is as low as it may be, or suffices.
        #expect(machine.run(60).isEmpty)
    }

    @Test func allFramesAreSentAgainWhenTheCPUIsFree() {
        var machine = Machine()
        machine.run(20)
        machine.encoding = 14
        machine.run(10)
        machine.encoding = 120
        #expect(machine.run(7) == [19, 0])
        #expect(machine.run(60).isEmpty)
    }

    /// A quota that a lower frame rate fits into still stops the process now and then.
    @Test func aFrameThatDelaysTheNextOneForbidsAStepUp() {
        var machine = Machine()
        machine.run(20)
        machine.encoding = 14
        machine.run(10)
        (machine.encoding, machine.slowest) = (120, .milliseconds(90))
        #expect(machine.run(60).isEmpty)
        machine.slowest = .milliseconds(20)
        #expect(machine.run(7) == [19, 0])
    }

    @Test func otherProcessesMayTakeTheCPUForThreeSeconds() {
        var machine = Machine()
        machine.run(20)
        for _ in 0..<10 {
            machine.encoding = 5
            #expect(machine.run(3).isEmpty)
            machine.encoding = 120
            #expect(machine.run(2).isEmpty)
        }
    }

    @Test func aStopOfTheProcessIsNoOveruse() {
        var machine = Machine()
        for seconds in [3, 10, 300] {
            #expect(machine.run(5).isEmpty)
            machine.stop(seconds)
        }
        #expect(machine.run(5).isEmpty)
    }

    @Test func burstsOfTheInputAreNoOveruse() {
        var machine = Machine(burstLoss: 6)
        #expect(machine.run(60).isEmpty)
    }

    @Test func aSlowDecoderIsOveruseToo() {
        var machine = Machine()
        machine.run(20)
        machine.decoding = 14
        #expect(machine.run(15) == [20, 13])
        #expect(machine.run(60).isEmpty)
    }

    /// The shares are those of the input's frame rate, not of the highest one.
    @Test func aSlowInputIsLoweredFromItsOwnRate() {
        var machine = Machine(inputRate: 15)
        machine.run(20)
        machine.encoding = 7
        #expect(machine.run(8) == [6])
    }

    /// A quota that a lower frame rate fits into shows only when a step up exceeds it.
    @Test func aWrongStepUpIsTakenBackAndLeavesTime() {
        var machine = Machine()
        machine.run(20)
        machine.quota = 14
        machine.run(10)
        let before = machine.lostSeconds
        let changes = machine.run(90)
        #expect(changes.allSatisfy { (8...20).contains($0) }, "\(changes)")
        #expect(machine.lostSeconds - before < 0.3 * 90)
    }

    /// A second of overuse ends a trial, and the frame rate before it returns.
    @Test func aWrongStepUpReturnsToTheRateBefore() {
        var machine = Machine()
        machine.run(20)
        machine.quota = 14
        machine.run(10)
        let rate = machine.controller.frameRate ?? 0
        let changes = machine.run(60)
        #expect(!changes.isEmpty && changes.count % 2 == 0)
        #expect(changes.enumerated().allSatisfy { $0 % 2 == 0 ? $1 > rate : $1 == rate }, "\(rate), \(changes)")
    }

    /// Whatever the controller does at that moment, the full frame rate is back after ten seconds.
    @Test(arguments: 0..<12)
    func aRecoveryTakesTenSecondsAtMost(secondsOfTheQuota: Int) {
        var machine = Machine()
        machine.run(20)
        machine.quota = 14
        machine.run(12 + secondsOfTheQuota)
        machine.quota = 1000
        machine.run(10)
        #expect(machine.controller.share == 1)
        #expect(machine.run(30).isEmpty)
    }

    /// Frames that take more work than before are no reason to keep the frame rate low for good.
    @Test func moreComplexFramesComeBackMoreSlowly() {
        var machine = Machine()
        machine.run(20)
        machine.encoding = 14
        machine.run(10)
        machine.encoding = 60
        #expect(machine.run(7).isEmpty)
        #expect(machine.run(30) == [19, 0])
    }
}
