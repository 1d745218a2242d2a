import DecartProtocol
import DecartSession
import Testing

@Suite("The machine: prompts and images", .timeLimit(.minutes(1)))
struct PromptTests {
    /// An uploaded file travels by its ID.
    @Test func anUploadedFileIsReferredTo() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        driver.update(image: .set(.file(id: "file_1")))
        #expect(driver.sent() == [.setImage(SetImageMessage(image: .reference("file_1"), text: .unchanged))])
        let content = SessionContent(prompt: try Prompt("x"), image: .file(id: "file_1"))
        #expect(!content.isPassthrough)
    }

    @Test func promptAndAck() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let id = try driver.update("second")
        #expect(driver.sent() == [.text("second")])
        driver.wait(.milliseconds(120))
        driver.server(.promptAck(PromptAck(prompt: "second", success: true)))
        #expect(
            driver.results() == [PromptResult(id: id, text: "second", outcome: .accepted, elapsed: .milliseconds(120))])
        // The prompt needs no renegotiation.
        #expect(!driver.startsMedia())
    }

    @Test func refusedPromptLeavesTheSessionAlone() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let id = try driver.update("bad")
        driver.server(.promptAck(PromptAck(prompt: "bad", success: false, error: "moderated")))
        #expect(driver.results().map(\.outcome) == [.rejected("moderated")])
        #expect(driver.results().map(\.id) == [id])
        #expect(driver.state == .connected)
        // A new session begins with the last accepted prompt.
        _ = driver.takeActions()
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        driver.wait(.seconds(1))
        driver.open()
        #expect(driver.sent() == [.text("first")])
    }

    @Test func acksMatchTheirOwnRequest() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let a = try driver.update("a")
        let b = try driver.update("b")
        let a2 = try driver.update("a")
        driver.server(.promptAck(PromptAck(prompt: "zzz", success: true)))
        #expect(driver.results() == [])
        driver.server(.promptAck(PromptAck(prompt: "b", success: true)))
        driver.server(.promptAck(PromptAck(prompt: "a", success: false, error: "no")))
        driver.server(.promptAck(PromptAck(prompt: "a", success: true)))
        driver.server(.promptAck(PromptAck(prompt: "a", success: true)))
        #expect(driver.results().map(\.id) == [b, a, a2])
        #expect(driver.results().map(\.isAccepted) == [true, false, true])
    }

    @Test func ackWithoutTextAnswersTheOldest() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let a = try driver.update("a")
        let b = try driver.update("b")
        for _ in 0..<3 { driver.server(.promptAck(PromptAck(prompt: nil, success: true))) }
        #expect(driver.results().map(\.id) == [a, b])
    }

    @Test func timeouts() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let text = try driver.update("a")
        let image = driver.update(image: .set(.image(try testImage())))
        driver.wait(.seconds(14.9))
        #expect(driver.results() == [])
        driver.wait(.seconds(0.1))
        #expect(driver.results().map(\.id) == [text])
        driver.wait(.seconds(15))
        #expect(driver.results().map(\.id) == [text, image])
        #expect(driver.results().allSatisfy { $0.outcome == .timedOut })
        #expect(driver.state == .connected)
        // A late ack gives no result, but it updates the content that the service shows.
        driver.server(.promptAck(PromptAck(prompt: "a", success: true)))
        #expect(driver.results().count == 2)
        #expect(driver.machine.wantedContent.prompt?.text == "a")
        #expect(driver.runningTimers.contains(.acks) == false)
    }

    /// A timed-out request belongs to its channel. The next channel never sent it, so an ack there that happens to
    /// match does not concern it.
    @Test(arguments: [nil, "late"]) func expiredRequestsEndWithTheirChannel(text: String?) throws {
        var driver = try MachineDriver.connected(prompt: "first")
        try driver.update("late")
        driver.wait(.seconds(15))
        #expect(driver.results().map(\.outcome) == [.timedOut])
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        driver.waitForRetry()
        _ = driver.takeActions()
        driver.open()
        #expect(driver.sent() == [.text("first")])
        driver.server(.promptAck(PromptAck(prompt: "first", success: true)))
        driver.server(.promptAck(PromptAck(prompt: text, success: true)))
        #expect(driver.machine.wantedContent.prompt?.text == "first")
        #expect(driver.results() == [])
    }

    @Test func imagesAreSingleFlight() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let images = try [17, 18, 19, 20].map { try testImage($0) }
        let ids = images.map { driver.update(image: .set(.image($0))) }
        #expect(driver.sent().count == 1)
        #expect(driver.results().map(\.id) == [ids[1], ids[2]])
        #expect(driver.results().allSatisfy { $0.outcome == .superseded })
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(driver.sent().count == 2)
        driver.server(.setImageAck(SetImageAck(success: false, error: "too blurry")))
        #expect(driver.results().map(\.id) == [ids[1], ids[2], ids[0], ids[3]])
        #expect(driver.results().last?.error == "too blurry")
        #expect(driver.machine.wantedContent.image == .image(images[0]))
    }

    @Test func aSupersededImageHandsItsTextOn() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        _ = driver.update(image: .set(.image(try testImage(17))))
        _ = try driver.update("text of the second", image: .set(.image(try testImage(18))))
        let third = try testImage(19)
        _ = driver.update(image: .set(.image(third)))
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(
            driver.sent().last
                == .setImage(
                    SetImageMessage(
                        image: .data(base64: third.base64), text: .prompt("text of the second"), enhance: false)))
    }

    @Test func textWaitsBehindAWaitingImage() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        _ = driver.update(image: .set(.image(try testImage(17))))
        _ = try driver.update("with the second", image: .set(.image(try testImage(18))))
        let last = try driver.update("last")
        #expect(driver.sent().count == 1)
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(driver.sent().last == .text("last"))
        driver.server(.promptAck(PromptAck(prompt: "last", success: true)))
        driver.server(.setImageAck(SetImageAck(success: true)))
        #expect(driver.results().map(\.id).contains(last))
        // The later request wins, whatever the order of acks.
        #expect(driver.machine.wantedContent.prompt?.text == "last")
    }

    @Test func messagesForEveryChange() throws {
        let image = try testImage()
        let (new, data) = (PromptUpdate.Image.set(.image(image)), SetImageMessage.Image.data(base64: image.base64))
        let text = SessionContent(prompt: try Prompt("first"))
        let both = SessionContent(prompt: try Prompt("first"), image: .image(image))
        let rows: [(start: SessionContent, text: String?, image: PromptUpdate.Image, message: ClientMessage)] = [
            (text, "", .unchanged, .setImage(.passthrough)),
            (text, nil, new, .setImage(SetImageMessage(image: data, text: .unchanged))),
            (text, "both", new, .setImage(SetImageMessage(image: data, text: .prompt("both"), enhance: false))),
            (text, "", new, .setImage(SetImageMessage(image: data, text: .none))),
            (both, "new", .unchanged, .text("new")),
            (both, "", .unchanged, .setImage(SetImageMessage(image: data, text: .none))),
            (both, nil, .removed, .setImage(SetImageMessage(image: .none, text: .prompt("first"), enhance: false))),
            (both, "", .removed, .setImage(.passthrough)),
            (SessionContent(), "new", .unchanged, .text("new")),
        ]
        for row in rows {
            var driver = try MachineDriver.connected { $0.initial = row.start }
            let prompt = try row.text.map { try Prompt($0) }
            driver.handle(.update(PromptUpdate(prompt: prompt, image: row.image), id: 1))
            #expect(driver.sent() == [row.message], "\(row)")
        }
    }

    @Test func errorFailsWhatIsPending() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let a = try driver.update("a")
        let b = try driver.update("b")
        driver.server(.error("something"))
        #expect(driver.results().map(\.id) == [a, b])
        #expect(driver.results().allSatisfy { $0.outcome == .rejected("something") })
        #expect(driver.state == .connected && driver.warnings() == [])
    }

    @Test func unacknowledgedPromptsAreSaidAgainBeforeTheOffer() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let ids = [try driver.update("a"), try driver.update("b")]
        let old = driver.attempt
        driver.handle(.channelClosed(old, code: nil, reason: ""))
        let third = try driver.update("c")
        driver.wait(.seconds(1))
        _ = driver.takeActions()
        driver.open()
        #expect(driver.sent() == [.text("a"), .text("b"), .text("c")])
        driver.handle(.channelMessage(old, .promptAck(PromptAck(prompt: "a", success: true))))
        #expect(driver.results() == [])
        driver.server(.promptAck(PromptAck(prompt: "a", success: true)))
        driver.server(.promptAck(PromptAck(prompt: "b", success: true)))
        #expect(!driver.startsMedia())
        driver.server(.promptAck(PromptAck(prompt: "c", success: true)))
        #expect(driver.startsMedia())
        #expect(driver.results().map(\.id) == ids + [third])
    }

    @Test func latestPromptAndImageAreReplayed() throws {
        let image = try testImage()
        var driver = try MachineDriver.connected(prompt: "first")
        driver.update(image: .set(.image(image)))
        driver.server(.setImageAck(SetImageAck(success: true)))
        try driver.update("latest")
        driver.server(.promptAck(PromptAck(prompt: "latest", success: true)))
        for _ in 0..<3 {
            _ = driver.takeActions()
            driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
            driver.waitForRetry()
            driver.open()
            #expect(
                driver.sent() == [
                    .setImage(
                        SetImageMessage(image: .data(base64: image.base64), text: .prompt("latest"), enhance: false))
                ])
            driver.acknowledgeAll()
            driver.negotiate()
            #expect(driver.state == .connected)
        }
        #expect(driver.results() == [])
    }

    @Test func aWishRefusedOnReconnectFallsBackToWhatWasAccepted() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let bad = try driver.update("bad")
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        driver.wait(.seconds(1))
        _ = driver.takeActions()
        driver.open()
        #expect(driver.sent() == [.text("bad")])
        driver.server(.promptAck(PromptAck(prompt: "bad", success: false, error: "moderated")))
        #expect(driver.results().map(\.id) == [bad])
        #expect(driver.state == .reconnecting)
        #expect(driver.sent() == [.text("bad"), .text("first")])
        driver.server(.promptAck(PromptAck(prompt: "first", success: true)))
        driver.negotiate()
        #expect(driver.state == .connected)
    }

    @Test func aPromptDuringConnectingIsPartOfTheInitialState() throws {
        var driver = try MachineDriver(prompt: "first", at: .opening)
        let id = try driver.update("newer")
        driver.open()
        #expect(driver.sent() == [.text("newer")])
        driver.acknowledgeAll()
        #expect(driver.results().map(\.id) == [id])
        #expect(driver.startsMedia())
    }

    @Test func withoutASessionThePromptIsRemembered() throws {
        var driver = try MachineDriver(prompt: "first")
        let id = try driver.update("before")
        #expect(driver.results().map(\.id) == [id])
        #expect(driver.results().map(\.outcome) == [.stored] && driver.results()[0].isAccepted)
        driver.walkToAwaitingInitialAck()
        #expect(driver.sent() == [.text("before")])
    }

    @Test func stopAnswersEverything() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        let ids = try (0..<50).map { try driver.update("p\($0)") }
        #expect(driver.sent().count == 32)
        driver.handle(.stop)
        #expect(driver.results().map(\.id) == ids)
        #expect(driver.results().allSatisfy { $0.outcome == .stored })
        driver.handle(.start)
        driver.open()
        #expect(driver.sent().last == .text("p49"))
    }

    @Test func theLedgerIsBounded() throws {
        var driver = try MachineDriver.connected(prompt: "first")
        driver.handle(.channelClosed(driver.attempt, code: nil, reason: ""))
        let ids = try (0..<1000).map { try driver.update("p\($0)") }
        #expect(driver.results().map(\.id) == Array(ids.prefix(1000 - 256)))
        #expect(driver.results().allSatisfy { $0.outcome == .superseded })
    }

    /// 1,000 prompts at 20/s over 3 connection losses: every request has exactly one result, all accepted, in order.
    @Test func aThousandPromptsOverThreeReconnects() throws {
        var driver = try MachineDriver(maximumRetries: nil, at: .connected)
        _ = driver.takeActions()
        var sentBefore = 0
        func acknowledge(allBut rest: Int) {
            for message in driver.sent().dropFirst(sentBefore).dropLast(rest) {
                if case .prompt(let prompt) = message {
                    driver.server(.promptAck(PromptAck(prompt: prompt.text, success: true)))
                }
                sentBefore += 1
            }
        }
        var open = true
        var lost = AttemptID(0)
        for index in 0..<1000 {
            try driver.update("prompt \(index % 7)")
            driver.wait(.milliseconds(50))
            if index % 250 == 200, index < 900 {
                lost = driver.attempt
                driver.handle(.channelClosed(lost, code: nil, reason: ""))
                open = false
                sentBefore = driver.sent().count
            }
            if !open, driver.attempt != lost {
                driver.open()
                open = true
                sentBefore = 0
            }
            guard open else { continue }
            // Acks lag by a few messages.
            acknowledge(allBut: index == 999 ? 0 : 3)
            if driver.startsMedia(), !driver.state.isConnected { driver.negotiate() }
        }
        for _ in 0..<100 { acknowledge(allBut: 0) }
        let results = driver.results()
        #expect(results.count == 1000)
        #expect(results.map(\.id) == results.map(\.id).sorted())
        #expect(Set(results.map(\.id)).count == 1000)
        #expect(results.allSatisfy { $0.isAccepted })
    }
}
