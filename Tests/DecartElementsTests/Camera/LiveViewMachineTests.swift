import DecartElements
import Testing

/// Live views on virtual time: no camera, no service, no thread.
@Suite(.indifferentToTransport) struct LiveViewMachineTests {
    private typealias Machine = LiveViewMachine

    /// Performs timers, and keeps what the machine asks for.
    private struct Driver {
        var machine = Machine(gatheringLimit: .milliseconds(250))
        var now = Duration.zero
        var actions: [Machine.Action] = []
        /// nil: the element does not play.
        var frames: UInt64? = 0
        var isFlowing = true
        private var timers: [(timer: Machine.Timer, id: Int, at: Duration)] = []

        mutating func handle(_ event: Machine.Event) {
            for action in machine.handle(event, now: now, jitter: 0) {
                guard case .schedule(let timer, let id, let delay) = action else {
                    actions.append(action)
                    continue
                }
                timers.append((timer, id, now + delay))
            }
        }

        /// Fires all timers, also those that the machine has cancelled, in order.
        mutating func wait(_ duration: Duration) {
            let end = now + duration
            while let next = timers.enumerated().filter({ $0.element.at <= end }).min(by: {
                $0.element.at < $1.element.at
            }) {
                timers.remove(at: next.offset)
                now = next.element.at
                if isFlowing, frames != nil { frames? += 1 }
                handle(.fired(next.element.timer, id: next.element.id, frames: frames))
            }
            now = end
        }

        mutating func takeActions() -> [Machine.Action] {
            defer { actions = [] }
            return actions
        }

        /// Walks to the first frame of a view.
        mutating func walkToLive(view: Int = 1, _ duration: Duration? = nil) {
            if view == 1 { handle(.start) }
            handle(.gathered(view: view))
            handle(.granted(view: view, LiveViewGrant(answer: "v=0", duration: duration)))
            handle(.firstFrame(view: view))
        }

        var opened: Int { actions.count { if case .open = $0 { true } else { false } } }
        var extensions: Int { actions.count { if case .extend = $0 { true } else { false } } }
        var warnings: [String] { actions.compactMap { if case .warn(let text) = $0 { text } else { nil } } }
        var delays: [Duration] { actions.compactMap { if case .report(let report) = $0 { report.delay } else { nil } } }
        var states: [Machine.State] {
            actions.compactMap { if case .report(let report) = $0 { report.state } else { nil } }
        }
    }

    @Test func aWholeView() {
        var driver = Driver()
        driver.handle(.start)
        #expect(driver.takeActions() == [.report(.init(state: .requesting)), .open(view: 1)])
        driver.handle(.gathered(view: 1))
        #expect(driver.takeActions() == [.request(view: 1)])
        let grant = LiveViewGrant(answer: "v=0", duration: nil)
        driver.handle(.granted(view: 1, grant))
        #expect(driver.takeActions() == [.report(.init(state: .connecting)), .connect(view: 1, grant)])
        driver.handle(.firstFrame(view: 1))
        #expect(driver.takeActions() == [.report(.init(state: .live))])
        driver.wait(.seconds(86_400))
        #expect(driver.takeActions().isEmpty)
        driver.handle(.stop)
        #expect(driver.takeActions() == [.close(view: 1), .report(.init(state: .ended))])
        driver.wait(.seconds(60))
        driver.handle(.failed(view: 1, LiveViewFailure(reason: "late")))
        #expect(driver.takeActions().isEmpty)
    }

    @Test func theOfferDoesNotWaitForSlowServers() {
        var driver = Driver()
        driver.handle(.start)
        driver.wait(.milliseconds(249))
        #expect(!driver.actions.contains(.request(view: 1)))
        driver.wait(.milliseconds(1))
        #expect(driver.takeActions().contains(.request(view: 1)))
        driver.handle(.gathered(view: 1))
        #expect(driver.takeActions().isEmpty)
    }

    @Test func aDurationIsExtendedInTime() {
        var driver = Driver()
        driver.walkToLive(.seconds(6))
        for round in 1...5 {
            driver.wait(.milliseconds(3999))
            #expect(driver.extensions == round - 1)
            driver.wait(.milliseconds(1))
            #expect(driver.extensions == round)
            driver.wait(.seconds(1))
            driver.handle(.extended(view: 1, .seconds(6)))
        }
        #expect(driver.opened == 1 && driver.warnings.isEmpty)
        // Without limit from here on.
        driver.wait(.seconds(4))
        driver.handle(.extended(view: 1, nil))
        driver.wait(.seconds(3600))
        #expect(driver.opened == 1 && driver.extensions == 6)
    }

    /// Once for the camera, however often its views begin again.
    @Test func audioThatCannotBeReceivedIsNamedOnce() {
        var driver = Driver()
        driver.handle(.audioUnusable(view: 1, reason: "early"))
        driver.walkToLive(.seconds(6))
        let earlier = driver.warnings.count
        driver.handle(.audioUnusable(view: 1, reason: "it is G722"))
        driver.handle(.audioUnusable(view: 1, reason: "it is G722"))
        driver.handle(.audioUnusable(view: 7, reason: "of another view"))
        #expect(driver.warnings.dropFirst(earlier) == ["The camera stays without audio: it is G722."])
        driver.wait(.seconds(6))
        driver.handle(.audioUnusable(view: 2, reason: "it is G722"))
        #expect(driver.opened == 2 && driver.warnings.count == earlier + 1)
        driver.handle(.audioUnusable(view: 2, reason: "it is L16"))
        #expect(driver.warnings.count == earlier + 2)
    }

    @Test func theLeadIsBounded() {
        #expect(Machine.lead(.seconds(6)) == .seconds(2))
        #expect(Machine.lead(.seconds(300)) == .seconds(30))
        #expect(Machine.lead(LiveViewGrant.durations.lowerBound) < LiveViewGrant.durations.lowerBound)
    }

    @Test(arguments: [true, false]) func withoutAnExtensionANewViewBeginsAtTheEnd(isRefused: Bool) {
        var driver = Driver()
        driver.walkToLive(.seconds(6))
        driver.wait(.seconds(4))
        if isRefused { driver.handle(.extensionRefused(view: 1, reason: "no")) }
        #expect(driver.warnings.count == (isRefused ? 1 : 0))
        driver.wait(.milliseconds(1999))
        #expect(driver.opened == 1)
        _ = driver.takeActions()
        driver.wait(.milliseconds(1))
        #expect(
            driver.takeActions() == [.close(view: 1), .report(.init(state: .requesting)), .open(view: 2)])
        // What the first view's service still says counts for nothing.
        driver.handle(.extended(view: 1, .seconds(60)))
        driver.handle(.granted(view: 1, LiveViewGrant(answer: "v=0")))
        #expect(driver.takeActions().isEmpty)
    }

    @Test func theApplicationMayAskForAnExtension() {
        var driver = Driver()
        driver.walkToLive(.seconds(60))
        driver.handle(.extend)
        driver.handle(.extend)
        #expect(driver.extensions == 1)
        driver.handle(.extended(view: 1, .seconds(600)))
        driver.wait(.seconds(569))
        #expect(driver.extensions == 1)
        driver.wait(.seconds(1))
        #expect(driver.extensions == 2)
        var unlimited = Driver()
        unlimited.walkToLive()
        unlimited.handle(.extend)
        #expect(unlimited.extensions == 0)
    }

    @Test func backOffGrowsAndBecomesShortAgain() {
        var driver = Driver()
        driver.handle(.start)
        for view in 1...6 {
            driver.handle(.failed(view: view, LiveViewFailure(reason: "HTTP 404")))
            driver.wait(.seconds(10))
            #expect(driver.opened == view + 1)
        }
        #expect(driver.delays == [1, 2, 4, 8, 10, 10].map { .seconds($0) })
        #expect(driver.warnings.first == "The live view failed: HTTP 404. A new one begins in 1.0 s.")
        // However short, a view shows that the camera is there.
        for view in 7...8 {
            driver.walkToLive(view: view)
            driver.handle(.failed(view: view, LiveViewFailure(reason: "gone")))
            #expect(driver.delays.last == .seconds(1))
            driver.wait(.seconds(1))
        }
        driver.handle(.gathered(view: 9))
        driver.handle(.granted(view: 9, LiveViewGrant(answer: "v=0")))
        driver.handle(.failed(view: 9, LiveViewFailure(reason: "no frame")))
        #expect(driver.delays.last == .seconds(2))
        driver.wait(.seconds(2))
        driver.handle(.failed(view: 10, LiveViewFailure(reason: "busy", retryAfter: .seconds(40))))
        #expect(driver.delays.last == .seconds(40))
    }

    @Test func nothingIsAwaitedForEver() {
        var driver = Driver()
        driver.handle(.start)
        driver.wait(.milliseconds(250) + Machine.answerLimit)
        #expect(driver.warnings.last?.contains("no answer") == true)
        driver.wait(.seconds(1))
        driver.handle(.gathered(view: 2))
        driver.handle(.granted(view: 2, LiveViewGrant(answer: "v=0")))
        driver.wait(Machine.firstFrameLimit)
        #expect(driver.warnings.last?.contains("no frame within 15 s") == true)
        driver.wait(.seconds(2))
        driver.walkToLive(view: 3)
        // In PAUSED no frames are due.
        driver.frames = nil
        driver.wait(.seconds(60))
        #expect(driver.opened == 3)
        (driver.frames, driver.isFlowing) = (7, false)
        driver.wait(Machine.silenceLimit + Machine.lookInterval)
        #expect(driver.warnings.last?.contains("no frame within 5 s") == true)
        #expect(driver.states.last == .waiting)
    }

    /// Silence lasts for its limit from the last frame on, wherever that lies between two looks.
    @Test(arguments: [1, 499, 500, 501, 4999, 5300, 60_001]) func silenceIsNoticedInTime(last: Int) {
        var driver = Driver()
        driver.walkToLive()
        driver.wait(.milliseconds(last))
        driver.frames? += 1
        driver.isFlowing = false
        driver.wait(Machine.silenceLimit - .milliseconds(1))
        #expect(driver.states.last == .live)
        driver.wait(Machine.lookInterval + .milliseconds(1))
        #expect(driver.states.last == .waiting)
    }

    @Test(arguments: [true, false]) func aCloseBeforeTheFirstFrameHasItsCause(hasFrame: Bool) {
        var driver = Driver()
        driver.handle(.start)
        driver.handle(.gathered(view: 1))
        driver.handle(.granted(view: 1, LiveViewGrant(answer: "v=0")))
        if hasFrame { driver.handle(.firstFrame(view: 1)) }
        driver.handle(.failed(view: 1, LiveViewFailure(reason: "the peer closed", isClose: true)))
        #expect(driver.warnings.first?.contains("the peer closed") == true)
        #expect(driver.warnings.first?.contains("B-frames") == !hasFrame)
    }

    @Test func anOfferWithAudioThatIsRefusedIsFollowedByOneWithout() {
        var driver = Driver()
        driver.handle(.start)
        driver.handle(.gathered(view: 1))
        _ = driver.takeActions()
        let refused = LiveViewFailure(reason: "HTTP 400", mayBeAudio: true)
        driver.handle(.failed(view: 1, refused))
        #expect(driver.warnings.first?.contains("audio") == true && driver.warnings.first?.contains("HTTP 400") == true)
        #expect(driver.takeActions().contains(.openWithoutAudio(view: 2)))
        driver.walkToLive(view: 2)
        #expect(driver.takeActions().last == .report(.init(state: .live)))
        // The next camera may have audio that the server takes.
        driver.handle(.failed(view: 2, LiveViewFailure(reason: "gone")))
        driver.wait(.seconds(1))
        #expect(driver.takeActions().contains(.open(view: 3)))
        driver.handle(.gathered(view: 3))
        driver.handle(.failed(view: 3, refused))
        driver.handle(.gathered(view: 4))
        driver.handle(.failed(view: 4, LiveViewFailure(reason: "HTTP 400")))
        #expect(driver.delays.last == .seconds(2) && driver.states.last == .waiting)
    }

    /// A timer of an earlier phase that fires just before the current one must not take its frames.
    @Test func cancelledTimersLookAtNothing() {
        var driver = Driver()
        driver.isFlowing = false
        driver.handle(.start)
        driver.handle(.gathered(view: 1))
        driver.handle(.granted(view: 1, LiveViewGrant(answer: "v=0")))
        driver.handle(.firstFrame(view: 1))
        for _ in 1...10 {
            driver.frames? += 1
            driver.wait(Machine.silenceLimit)
        }
        #expect(driver.opened == 1 && driver.warnings.isEmpty)
    }

    @Test func aDurationThatEndsBeforeTheFirstFrameIsAFailure() {
        var driver = Driver()
        driver.handle(.start)
        driver.handle(.gathered(view: 1))
        driver.handle(.granted(view: 1, LiveViewGrant(answer: "v=0", duration: .seconds(2))))
        driver.wait(.seconds(2))
        #expect(driver.delays == [.seconds(1)])
    }

    @Test func stoppedWhileItWaitsNothingIsClosed() {
        var driver = Driver()
        driver.handle(.start)
        driver.handle(.failed(view: 1, LiveViewFailure(reason: "no")))
        _ = driver.takeActions()
        driver.handle(.stop)
        driver.wait(.seconds(60))
        #expect(driver.takeActions() == [.report(.init(state: .ended))])
    }

    @Test func relaysOfAnAnswerBeginTheViewAgain() {
        var driver = Driver()
        driver.handle(.start)
        driver.handle(.relaysNamed(view: 1))
        driver.handle(.gathered(view: 1))
        _ = driver.takeActions()
        driver.handle(.relaysNamed(view: 1))
        #expect(driver.takeActions() == [.close(view: 1), .report(.init(state: .requesting)), .open(view: 2)])
        driver.walkToLive(view: 2)
        #expect(driver.delays.isEmpty && driver.states.last == .live)
    }
}
