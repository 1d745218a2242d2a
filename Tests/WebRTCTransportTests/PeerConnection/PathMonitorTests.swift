import TestSupport
import Testing
import WebRTCTransport

/// A path judged by what arrives, in both directions, on virtual time.
@Suite
struct PathMonitorTests {
    private struct Run {
        var monitor = PathMonitor(now: .zero)
        var now = Duration.zero
        var verdicts: [PathMonitor.Verdict] = []
        var checks: [Duration] = []
        var random = SeededGenerator(seed: 1)

        /// - Parameters:
        ///   - rate: packets a second that arrive.
        ///   - acknowledges: the packets that arrive are RTCP about our video.
        ///   - answers: share of checks that are answered.
        mutating func wait(
            _ time: Duration, rate: Int = 0, acknowledges: Bool = false, answers: Double = 0, sends: Bool = true
        ) {
            let end = now + time
            while now < end {
                now += .milliseconds(250)
                for _ in 0..<(rate / 4) {
                    if let verdict = monitor.arrived(acknowledges ? .acknowledgement : .media, now: now) {
                        verdicts.append(verdict)
                    }
                }
                for verdict in monitor.tick(now: now, jitter: .random(in: 0...1, using: &random), sends: sends) {
                    guard verdict == .check else {
                        verdicts.append(verdict)
                        continue
                    }
                    checks.append(now)
                    if Double.random(in: 0..<1, using: &random) < answers,
                        let verdict = monitor.arrived(.consent, now: now)
                    {
                        verdicts.append(verdict)
                    }
                }
            }
        }
    }

    @Test func silenceAfterMedia() {
        var run = Run()
        run.wait(.seconds(10), rate: 60, answers: 1)
        #expect(run.verdicts.isEmpty)
        run.wait(.seconds(2))
        #expect(run.verdicts == [.disconnected] && run.monitor.isDisconnected)
        run.wait(.seconds(8))
        run.wait(.seconds(1), rate: 60, answers: 1)
        #expect(run.verdicts == [.disconnected, .reconnected])
        run.wait(.seconds(31))
        #expect(run.verdicts == [.disconnected, .reconnected, .disconnected, .expired])
    }

    /// At once, every 8 to 12 s while all is well, every 2 s without an answer, and expiry after 30 s (RFC 7675).
    @Test func anIdlePath() {
        var run = Run()
        run.wait(.seconds(1), answers: 1, sends: false)
        #expect(run.checks.count == 1)
        run.wait(.seconds(600), answers: 1, sends: false)
        #expect(run.verdicts.isEmpty)
        let gaps = zip(run.checks, run.checks.dropFirst()).map { $1 - $0 }
        #expect(gaps.allSatisfy { $0 >= .seconds(8) && $0 <= .seconds(12.25) } && gaps.count > 45)
        let since = run.now
        run.wait(.seconds(40), sends: false)
        #expect(run.verdicts == [.disconnected, .expired])
        #expect(run.checks.count { $0 > since } > 10)
    }

    /// 10 % loss each way, and only checks: 200 hours without an end.
    @Test func lossEndsNothing() {
        var run = Run()
        run.wait(.seconds(200 * 3600), answers: 0.81, sends: false)
        #expect(!run.verdicts.contains(.expired))
        // Three checks in a row are lost now and then.
        #expect(run.verdicts.count < run.checks.count / 20)
    }

    /// A NAT forgot its mapping: the peer answers checks, and its media do not arrive.
    @Test func onlyChecksAreAnswered() {
        for sends in [true, false] {
            var run = Run()
            run.wait(.seconds(10), rate: 60, answers: 1)
            var verdicts: [PathMonitor.Verdict] = []
            for _ in 0..<80 {
                run.now += .milliseconds(250)
                for verdict in run.monitor.tick(now: run.now, jitter: 0.5, sends: sends) {
                    verdicts.append(verdict)
                    if verdict == .check, let next = run.monitor.arrived(.consent, now: run.now) {
                        verdicts.append(next)
                    }
                }
            }
            // A peer that sends nothing is no fault if we send nothing either, as in standby.
            #expect(verdicts.filter { $0 != .check } == (sends ? [.disconnected] : []))
            run.wait(.seconds(1), rate: 60)
            #expect(run.verdicts == (sends ? [.reconnected] : []))
        }
    }

    /// Where feedback came often, the path is lost sooner; a peer that only pauses its media still sends feedback.
    @Test(arguments: [(40, 1200), (2, 2500)])
    func silenceOfFeedback(rate: Int, milliseconds: Int) {
        var monitor = PathMonitor(now: .zero)
        var now = Duration.zero
        func tick(media: Bool, feedback: Bool) -> Bool {
            now += .milliseconds(25)
            if media { _ = monitor.arrived(.media, now: now) }
            if feedback, Int(now / .milliseconds(25)) % (40 / rate) == 0 { _ = monitor.arrived(.feedback, now: now) }
            _ = monitor.arrived(.consent, now: now)
            return monitor.tick(now: now, jitter: 0.5, sends: true).contains(.disconnected)
        }
        while now < .seconds(10) { #expect(!tick(media: true, feedback: true)) }
        let pause = now
        while now < pause + .seconds(20) { #expect(!tick(media: false, feedback: true)) }
        while now < pause + .seconds(30) { #expect(!tick(media: true, feedback: true)) }
        let silence = now
        while !tick(media: false, feedback: false), now < silence + .seconds(9) {}
        #expect(now == silence + .milliseconds(milliseconds))
    }

    @Test func aSuspendedProcess() {
        var run = Run()
        run.wait(.seconds(10), rate: 60, answers: 1)
        run.now += .seconds(600)
        run.wait(.seconds(1))
        #expect(run.verdicts.isEmpty)
    }

    // MARK: The uplink

    /// Media arrive, but no check is answered: checks each 250 ms, then a lost path; a response shows its return.
    @Test func onlyTheUplinkIsDead() {
        var run = Run()
        run.wait(.seconds(10), rate: 60, answers: 1)
        run.checks = []
        run.wait(.seconds(5), rate: 60)
        #expect(run.verdicts == [.disconnected])
        let gaps = zip(run.checks, run.checks.dropFirst()).map { $1 - $0 }
        #expect(gaps.filter { $0 == .milliseconds(250) }.count >= 5)
        run.wait(.seconds(2), rate: 60, answers: 1)
        #expect(run.verdicts == [.disconnected, .reconnected])
    }

    /// RFC 7675 §5.1: 30 s after the last response, whatever arrives.
    @Test(arguments: [true, false])
    func mediaDoNotRenewConsent(sends: Bool) {
        var run = Run()
        run.wait(.seconds(1), rate: 60, answers: 1)
        run.wait(.seconds(28), rate: 60, sends: sends)
        #expect(!run.verdicts.contains(.expired))
        run.wait(.seconds(3), rate: 60, sends: sends)
        #expect(run.verdicts.last == .expired)
    }

    @Test func aPausedSenderSuspectsNothing() {
        var run = Run()
        run.wait(.seconds(1), rate: 60, answers: 1)
        run.wait(.seconds(15), rate: 60, sends: false)
        #expect(run.verdicts.isEmpty)
    }

    /// Checks pass and media do not. Only an acknowledgement shows the return.
    @Test func onlyOurMediaVanish() {
        var run = Run()
        run.wait(.seconds(20), rate: 8, acknowledges: true, answers: 1)
        #expect(run.verdicts.isEmpty)
        run.wait(.seconds(5), rate: 60, answers: 1)
        #expect(run.verdicts == [.disconnected])
        run.wait(.seconds(5), rate: 60, answers: 1)
        #expect(run.verdicts == [.disconnected])
        run.wait(.seconds(1), rate: 8, acknowledges: true, answers: 1)
        #expect(run.verdicts == [.disconnected, .reconnected])
    }

    /// Reports may be 7.5 s apart (RFC 3550 §6.2), and some peers send none.
    @Test func rareReports() {
        for answers in [0, 10] {
            var run = Run()
            for _ in 0..<answers {
                _ = run.monitor.arrived(.acknowledgement, now: run.now)
                run.wait(.milliseconds(7500), rate: 60, answers: 1)
            }
            run.wait(.seconds(8), rate: 60, answers: 1)
            #expect(run.verdicts.isEmpty)
        }
    }

    /// The service reports that nothing arrives: the path is judged within two seconds, and not lost without a cause.
    @Test(arguments: [0.0, 1.0])
    func aReportOfTheService(answers: Double) {
        var run = Run()
        run.wait(.seconds(10), rate: 60, answers: 1)
        run.monitor.suspect(now: run.now)
        run.wait(.milliseconds(1750), rate: 60, answers: answers)
        #expect(run.verdicts == (answers == 0 ? [.disconnected] : []))
    }
}
