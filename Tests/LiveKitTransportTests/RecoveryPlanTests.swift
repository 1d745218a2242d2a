import DecartProtocol
import DecartSession
import Glibc
import LiveKitProtocol
import LiveKitTransport
import Recovery
import Testing
import WebRTCTransport

/// The table of docs/GUIDE.md, "Reconnecting": what happens how long after a loss. The machines and the monitor of the
/// path run on virtual time; the network and the service are the model below.
@Suite("What happens after a loss", .timeLimit(.minutes(1)))
struct RecoveryPlanTests {
    private func outage(_ seconds: Int) throws -> RecoveryModel {
        var model = try RecoveryModel.connected()
        model.cutCable(for: .seconds(seconds))
        model.run(for: .seconds(120))
        return model
    }

    @Test func cableOutForOneSecond() throws {
        let model = try outage(1)
        #expect(model.lostAt == nil && model.warnings.isEmpty && model.dials == 0 && model.keepsSession)
        #expect(model.longestGap <= .seconds(1) + RecoveryModel.step * 2)
    }

    @Test func cableOutForThreeSeconds() throws {
        let model = try outage(3)
        let lost = try #require(model.lostAt)
        #expect(lost >= RecoveryPlan.Path.feedbackLimit && lost <= RecoveryPlan.Path.busyLimit)
        #expect(model.warnings.isEmpty)
        #expect(model.dials == 0 && model.keepsSession && model.states == [.connected])
        #expect(model.longestGap <= .seconds(3) + RecoveryModel.step * 2)
    }

    @Test(arguments: [10, 20]) func cableOutForTheTimeOfASuspension(seconds: Int) throws {
        let model = try outage(seconds)
        let warned = try #require(model.warnings.first)
        #expect(
            warned >= RecoveryPlan.Session.stallTimeout && warned <= RecoveryPlan.Session.stallTimeout + .seconds(1))
        #expect(model.warnings.count == 1 && model.dials == 1 && model.keepsSession)
        #expect(model.states == [.connected, .reconnecting, .connected])
        // The first packet continues the session.
        #expect(model.longestGap <= .seconds(seconds) + RecoveryModel.step * 2)
    }

    @Test func cableOutForSixtySeconds() throws {
        let model = try outage(60)
        #expect(!model.keepsSession && model.state == .connected)
        #expect(model.states == [.connected, .reconnecting, .connected])
        // The dial that waits for the network gets through, or the next one after the longest wait.
        #expect(model.longestGap <= .seconds(60) + RecoveryPlan.Session.longestRetryDelay)
        let end = try #require(model.endedAt)
        #expect(end >= RecoveryPlan.Session.stallTimeout + RecoveryPlan.Session.suspensionTimeout)
    }

    @Test func uplinkDead() throws {
        var model = try RecoveryModel.connected()
        model.udp.up = false
        model.run(for: .seconds(60))
        let lost = try #require(model.lostAt)
        #expect(lost >= RecoveryPlan.Path.uplinkLimit.busy && lost <= RecoveryPlan.Path.uplinkLimit.other)
        #expect(model.warnings.isEmpty && model.dials == 0 && model.keepsSession && model.isOverTCP)
        #expect(model.longestGap <= RecoveryModel.step * 2)
    }

    @Test func downlinkDead() throws {
        var model = try RecoveryModel.connected()
        model.udp.down = false
        model.run(for: .seconds(60))
        let lost = try #require(model.lostAt)
        #expect(lost >= RecoveryPlan.Path.feedbackLimit && lost <= RecoveryPlan.Path.busyLimit)
        #expect(model.warnings.isEmpty && model.dials == 0 && model.keepsSession && model.isOverTCP)
        #expect(model.longestGap <= RecoveryPlan.Path.busyLimit + .seconds(1))
    }

    /// A service that answers no restart.
    @Test func uplinkDeadWithoutARestart() throws {
        var model = try RecoveryModel.connected()
        (model.udp.up, model.answersRestarts) = (false, false)
        model.run(for: RecoveryPlan.Path.uplinkLimit.busy + RecoveryPlan.Session.stallTimeout - RecoveryModel.step)
        #expect(model.keepsSession && model.state == .connected && model.dials == 0)
        model.run(for: .seconds(60))
        let limit = RecoveryPlan.Path.uplinkLimit.other + RecoveryPlan.Session.stallTimeout
        #expect(!model.keepsSession && model.state == .connected && model.dials == 1 && model.warnings.count == 1)
        #expect(try #require(model.endedAt) <= limit + RecoveryModel.step)
    }

    /// A service that answers the restart, and no path is found.
    @Test func uplinkDeadOnAllPaths() throws {
        var model = try RecoveryModel.connected()
        (model.udp.up, model.findsNoPath) = (false, true)
        model.run(for: .seconds(60))
        let end = try #require(model.endedAt)
        let restart = RecoveryPlan.ICE.restartTimeout
        #expect(end >= RecoveryPlan.Path.uplinkLimit.busy + restart)
        #expect(end <= RecoveryPlan.Path.uplinkLimit.other + restart + RecoveryModel.step)
        #expect(!model.keepsSession && model.dials == 1)
    }

    @Test func addressChanged() throws {
        var model = try RecoveryModel.connected()
        model.changeAddress()
        model.run(for: .seconds(60))
        #expect(model.warnings == [.zero] && model.dials == 1 && !model.keepsSession)
        #expect(model.states == [.connected, .reconnecting, .connected])
        #expect(model.longestGap <= .seconds(1))
    }

    @Test func controlChannelDead() throws {
        var model = try RecoveryModel.connected()
        model.killChannel()
        model.run(for: .seconds(60))
        let warned = try #require(model.warnings.first)
        let ping = RecoveryPlan.Channel.pingInterval
        #expect(warned >= ping && warned <= ping * 2 + RecoveryModel.step && model.warnings.count == 1)
        #expect(model.lostAt == nil && model.dials == 1 && !model.keepsSession)
        // The media of the first session are shown until the second one shows a frame.
        #expect(try #require(model.endedAt) > warned && model.longestGap <= RecoveryModel.step * 2)
    }

    /// The room is resumed at once and without an end; after `resumeLimit` the session sets another one up beside it.
    @Test func signallingOfARoomDead() throws {
        var model = try RecoveryModel.connected()
        let error = SessionError(.network, "refused", stage: .media)
        for _ in 0..<Int(RecoveryPlan.Room.resumeLimit / .seconds(1)) {
            model.handle(.media(model.first, .recovering(error)))
            #expect(model.dials == 0 && model.warnings.isEmpty)
            model.run(for: .seconds(1))
        }
        #expect(model.recoveries == 1 && model.dials == 1 && model.keepsSession)
        #expect(model.warnings == [RecoveryPlan.Room.resumeLimit])
        // A server that comes back ends it.
        model.handle(.media(model.first, .recovered))
        model.run(for: .seconds(100))
        #expect(model.keepsSession && model.state == .connected && model.states == [.connected] && model.dials == 1)
    }

    /// No frames are sent, so nothing but the limit ends the session.
    @Test func signallingAndPathOfARoomDead() throws {
        var model = try RecoveryModel.connected()
        model.handle(.mute(true))
        model.handle(.media(model.first, .pathLost))
        model.handle(.media(model.first, .recovering(SessionError(.network, "refused", stage: .media))))
        model.run(for: RecoveryPlan.Room.resumeLimit - RecoveryModel.step)
        #expect(model.keepsSession && model.dials == 0)
        model.run(for: .seconds(30))
        #expect(!model.keepsSession && model.dials == 1 && model.warnings.count == 1 && model.state == .connected)
    }

    // MARK: The page

    @Test func theGuideHasTheTimesOfThePlan() throws {
        let path = #filePath.split(separator: "/").dropLast(3).map { "/" + $0 }.joined() + "/docs/GUIDE.md"
        let file = try #require(fopen(path, "r"), "\(path)")
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        bytes.removeLast(bytes.count - fread(&bytes, 1, bytes.count, file))
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let text = lines.joined(separator: " ")
        typealias Plan = RecoveryPlan
        let (busy, few) = (Plan.Path.uplinkLimit.busy, Plan.Path.uplinkLimit.other)
        let ping = Plan.Channel.pingInterval
        let waits = Plan.Room.waits.map { seconds($0) }
        let rows: [(String, [String])] = [
            (
                "| everything, for 3 s |",
                ["lost after \(seconds(Plan.Path.feedbackLimit)) s (few reports: \(seconds(Plan.Path.busyLimit)) s)"]
            ),
            (
                "| everything, for 10 or 20 s |",
                [
                    "after \(seconds(Plan.Session.stallTimeout)) s the session is suspended",
                    "for \(seconds(Plan.Session.suspensionTimeout)) s",
                ]
            ),
            (
                "| the uplink",
                [
                    "after \(seconds(busy)) s (few reports: \(seconds(few)) s)",
                    "no answer in \(seconds(Plan.Session.stallTimeout)) s, no path in "
                        + "\(seconds(Plan.ICE.restartTimeout)) s",
                ]
            ),
            (
                "| the downlink",
                ["after \(seconds(Plan.Path.feedbackLimit)) s (few reports: \(seconds(Plan.Path.busyLimit)) s)"]
            ),
            ("| the control channel |", ["\(seconds(ping)) to \(seconds(ping * 2)) s;"]),
            ("| a room's signalling", ["after \(seconds(Plan.Room.resumeLimit)) s, beside media that flow"]),
            ("| the service's frames alone", ["after \(seconds(Plan.Session.stallTimeout)) s WARNING"]),
            ("| consent (RFC 7675)", ["for \(seconds(Plan.Path.consentTimeout)) s"]),
            ("| later media |", ["on a lost path \(seconds(Plan.Session.stallTimeout)) s"]),
            ("| next generation after", ["| \(seconds(Plan.Session.generationTimeout)) s |"]),
        ]
        for (start, times) in rows {
            let row = lines.first { $0.hasPrefix(start) }.map(String.init)
            #expect(row != nil, "no row \(start)")
            for time in times { #expect(row?.contains(time) == true, "\(start): \(time)") }
        }
        for time in [
            "retries after \(seconds(Plan.Session.firstRetryDelay)), \(seconds(Plan.Session.firstRetryDelay * 2)),",
            "lengthen a wait up to \(seconds(Plan.Session.longestRequestedWait)) s",
            "A connection of \(seconds(Plan.Session.stableAfter)) s resets",
            "a warning after \(seconds(Plan.Session.renegotiationTimeout)) s",
            "follow after \(waits.dropLast().joined(separator: ", ")) and then \(waits[waits.count - 1]) s",
            "(with a dead path at most \(seconds(Plan.Room.longestWaitWithoutMedia)) s)",
            "with its token, within \(seconds(Plan.Room.rejoinTimeout)) s",
        ] {
            #expect(text.contains(time), "\(time)")
        }
    }

    private func seconds(_ time: Duration) -> String {
        let value = time / .seconds(1)
        return value == value.rounded() ? "\(Int(value))" : "\(value)"
    }
}
