import DecartProtocol
import DecartSession
import Testing

/// Another offer and answer over the same channel change the media of a connected path.
@Suite("Later offers", .timeLimit(.minutes(1)))
struct LaterOfferTests {
    private let attempt = AttemptID(1)

    @Test func goesOutAndItsAnswerComesBack() throws {
        var driver = try MachineDriver.connected()
        driver.media(.offer(sdp: "with sound"))
        #expect(driver.takeActions() == [.send(attempt, .offer(sdp: "with sound"))])
        #expect(driver.runningTimers.contains(.renegotiationAnswer(attempt)))
        driver.server(.answer(sdp: "yes"))
        #expect(driver.takeActions() == [.applyAnswer(attempt, sdp: "yes")])
        #expect(!driver.runningTimers.contains(.renegotiationAnswer(attempt)) && driver.state == .connected)
        // A second renegotiation works alike.
        driver.media(.offer(sdp: "without"))
        driver.server(.answer(sdp: "yes again"))
        #expect(
            driver.takeActions() == [.send(attempt, .offer(sdp: "without")), .applyAnswer(attempt, sdp: "yes again")])
    }

    @Test func oneAtATime() throws {
        var driver = try MachineDriver.connected()
        driver.media(.offer(sdp: "one"))
        driver.media(.offer(sdp: "two"))
        #expect(driver.sent() == [.offer(sdp: "one")])
        // The second answer to one offer is ignored.
        driver.server(.answer(sdp: "a"))
        driver.server(.answer(sdp: "b"))
        let applied = driver.takeActions().filter { if case .applyAnswer = $0 { true } else { false } }
        #expect(applied == [.applyAnswer(attempt, sdp: "a")])
    }

    @Test func anAnswerThatNeverComesIsAWarning() throws {
        var driver = try MachineDriver.connected()
        driver.media(.offer(sdp: "with sound"))
        _ = driver.takeActions()
        driver.wait(.seconds(11))
        let actions = driver.takeActions()
        #expect(actions.contains(.rollbackOffer(attempt)))
        #expect(actions.contains { if case .report(.warning(let error)) = $0 { error.stage == .media } else { false } })
        #expect(driver.state == .connected)
        // The answer is ignored once the timeout has passed.
        driver.server(.answer(sdp: "yes"))
        #expect(!driver.takeActions().contains { if case .applyAnswer = $0 { true } else { false } })
        driver.media(.offer(sdp: "once more"))
        #expect(driver.takeActions().contains(.send(attempt, .offer(sdp: "once more"))))
    }

    @Test func theServicesWordsAgainstItAreAWarningToo() throws {
        var driver = try MachineDriver.connected()
        driver.media(.offer(sdp: "with sound"))
        driver.server(.error("unexpected offer"))
        #expect(driver.state == .connected)
    }

    @Test func nothingIsLeftAtTheEnd() throws {
        var driver = try MachineDriver.connected()
        driver.media(.offer(sdp: "with sound"))
        driver.handle(.stop)
        #expect(driver.runningTimers.isEmpty)
    }
}
