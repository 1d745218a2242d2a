import DecartProtocol
import StandInServer
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct ControlChannelTests {
    /// Chunks of a PNG of one pixel; their content does not matter here.
    static func pngBytes(padding: Int = 0) -> [UInt8] {
        func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }
        func chunk(_ name: String, _ data: [UInt8]) -> [UInt8] {
            number(data.count) + Array(name.utf8) + data + [0, 0, 0, 0]
        }
        let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
        return signature + chunk("IHDR", number(1) + number(1) + [8, 0, 0, 0, 0])
            + chunk("tEXt", [UInt8](repeating: 65, count: padding)) + chunk("IDAT", [1]) + chunk("IEND", [])
    }

    static let png = Base64.encode(pngBytes())

    @Test func promptsAreAcknowledgedOrRefused() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            try client.send(.prompt(PromptMessage(text: "Lego", enhance: true)))
            #expect(try client.next() == .message(.promptAck(PromptAck(prompt: "Lego", success: true))))

            // No SDK limits prompts (Python 0.2.4, types.py, `Prompt`; DecartAI/sdk#153).
            let long = String(repeating: "ä", count: 2000)
            try client.expectAccepted(long)

            let refused = "please refuse-me now"
            try client.send(.prompt(PromptMessage(text: refused, enhance: false)))
            guard case .message(.promptAck(let ack)) = try client.next() else { throw TestClient.TimedOut() }
            #expect(ack.prompt == refused && !ack.success && ack.error?.isEmpty == false)
            let record = try #require(server.server.sessions.first)
            #expect(record.prompts == ["Lego", long, refused])
            #expect(record.promptCount == 3)
            #expect(record.refusalCount == 1)
        }
    }

    @Test func imagesAreAcknowledgedOrRefused() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            let good: [SetImageMessage] = [
                .passthrough, SetImageMessage(image: .data(base64: Self.png)),
                SetImageMessage(image: .data(base64: Self.png), text: .prompt("anime"), enhance: false),
                SetImageMessage(image: .reference("file_stored-1"), text: SetImageMessage.Text.none),
            ]
            for image in good {
                try client.send(.setImage(image))
                #expect(try client.next() == .message(.setImageAck(SetImageAck(success: true))))
            }
            let bad: [SetImageMessage] = [
                SetImageMessage(image: .data(base64: "*")), SetImageMessage(image: .data(base64: "")),
                SetImageMessage(image: .data(base64: Base64.encode(Array("no image".utf8)))),
                SetImageMessage(image: .data(base64: Self.png), text: .prompt("refuse-me")),
            ]
            for image in bad {
                try client.send(.setImage(image))
                guard case .message(.setImageAck(let ack)) = try client.next() else { throw TestClient.TimedOut() }
                #expect(!ack.success && ack.error?.isEmpty == false)
            }
            let record = try #require(server.server.sessions.first)
            #expect(record.passthroughCount == 1)
            #expect(record.imageCount == 7)
            #expect(record.refusalCount == 4)
        }
    }

    @Test func anImageOverTenMebibytesIsRefused() throws {
        let most = String(repeating: "A", count: ((10 << 20) + 2) / 3 * 4 + 1)
        #expect(throws: Refusal.self) { try ImageInput.hash(base64: most) }
        let large = Base64.encode(Self.pngBytes(padding: 1 << 16))
        #expect(throws: Never.self) { try ImageInput.hash(base64: large) }
    }

    @Test func theLookFollowsPromptsAndImages() throws {
        try TestServer.run { server in
            let (client, media) = try server.negotiate()
            let input = TestFrame.gradient().planes
            #expect(media.paint() == input)

            func expect(_ look: Look, after message: ClientMessage) throws {
                try client.send(message)
                _ = try client.next {
                    if case .message(.promptAck) = $0 { return true }
                    if case .message(.setImageAck) = $0 { return true }
                    return false
                }
                let testFrame = TestFrame.gradient()
                try testFrame.withFrame { look.apply(to: $0) }
                #expect(media.paint() == testFrame.planes)
            }
            let pngHash = StableHash.fnv1a(try ReferenceImage(bytes: Self.pngBytes()).bytes)
            let image = SetImageMessage.Image.data(base64: Self.png)
            try expect(Look(style: .mosaic), after: .prompt(PromptMessage(text: "lego", enhance: false)))
            try expect(Look(prompt: "lego", imageHash: pngHash), after: .setImage(SetImageMessage(image: image)))
            try expect(
                Look(prompt: "noir", imageHash: pngHash), after: .prompt(PromptMessage(text: "noir", enhance: false)))
            try expect(
                Look(prompt: "noir", imageHash: pngHash),
                after: .prompt(PromptMessage(text: "refuse-me", enhance: false)))
            try expect(
                Look(prompt: nil, imageHash: pngHash),
                after: .setImage(SetImageMessage(image: image, text: SetImageMessage.Text.none)))
            try expect(
                Look(prompt: "anime", imageHash: nil),
                after: .setImage(SetImageMessage(image: .none, text: .prompt("anime"))))
            try expect(.untouched, after: .setImage(.passthrough))
            let record = try #require(server.server.sessions.first)
            #expect(record.frames.raw == 1)
            #expect(record.frames.painted == 8)
        }
    }

    /// The first m-line that is not rejected has the candidates (RFC 9143 7.3.3).
    private static let offer = "v=0\r\nm=audio 0 UDP/TLS/RTP/SAVPF 0\r\n\(accepted)m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"
    private static let accepted = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n"
    private static func answer(to text: String, end: String = "a=end-of-candidates\r\n") -> String {
        text + offer.replacing(accepted, with: accepted + "a=candidate:1\r\n" + end)
    }

    @Test func candidatesTrickleWhenAskedTo() throws {
        try TestServer.run({ $0.tricklesCandidates = true }) { server in
            let client = try server.greeted()
            try client.send(.offer(sdp: Self.offer))
            #expect(try client.next() == .message(.answer(sdp: "answer to " + Self.offer)))
            let candidate = CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)
            #expect(try client.next() == .message(.iceCandidate(candidate)))
            #expect(try client.next() == .message(.iceCandidate(nil)))
        }
    }

    /// Later candidates and their end follow as messages.
    @Test func theAnswerDoesNotWaitForCandidatesForEver() throws {
        try TestServer.run { server in
            server.engine.endsCandidates = false
            let client = try server.greeted()
            try client.send(.offer(sdp: Self.offer))
            #expect(try client.next() == .message(.answer(sdp: Self.answer(to: "answer to ", end: ""))))
            let media = try #require(server.engine.sessions.first)
            let later = CandidateMessage(candidate: "candidate:2", sdpMid: "0", sdpMLineIndex: 0)
            media.onEvent(.localCandidate(later))
            media.onEvent(.localCandidate(nil))
            #expect(try client.next() == .message(.iceCandidate(later)))
            #expect(try client.next() == .message(.iceCandidate(nil)))
        }
    }

    @Test func offerAnswerAndCandidatesInOrder() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            let early = CandidateMessage(candidate: "candidate:early", sdpMid: "0", sdpMLineIndex: 0)
            let late = CandidateMessage(candidate: "candidate:late", sdpMid: "0", sdpMLineIndex: 0)
            try client.send(.prompt(PromptMessage(text: "lego", enhance: false)))
            _ = try client.next()
            try client.send(.iceCandidate(early))
            try client.send(.offer(sdp: Self.offer))
            try client.send(.iceCandidate(late))
            try client.send(.iceCandidate(nil))
            #expect(try client.next() == .message(.answer(sdp: Self.answer(to: "answer to "))))
            // A later offer uses the same media. Its answer shows that everything before it was handled, and that no
            // candidate was sent as a message.
            try client.send(.offer(sdp: Self.offer))
            #expect(try client.next() == .message(.answer(sdp: Self.answer(to: "answer to later "))))
            #expect(server.engine.sessions.count == 1)
            let media = try #require(server.engine.sessions.first)
            #expect(media.offer == Self.offer)
            #expect(media.remoteCandidates == [early, late, nil])
            let record = try #require(server.server.sessions.first)
            #expect(record.offerCount == 2)
            #expect(record.receivedEndOfCandidates)
            #expect(record.remoteCandidateCount == 2)
            #expect(!record.offeredBeforeState)
        }
    }

    /// Candidates that arrive before the offer are queued, except giant ones.
    @Test func giantCandidatesAreDropped() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            let giant = "candidate:" + String(repeating: "1", count: 1 << 20)
            for _ in 0..<4 { try client.send(.iceCandidate(CandidateMessage(candidate: giant))) }
            try client.send(.iceCandidate(CandidateMessage(candidate: "candidate:1")))
            try client.send(.offer(sdp: Self.offer))
            try client.awaitAnswer()
            #expect(server.engine.sessions.first?.remoteCandidates.map { $0?.candidate } == ["candidate:1"])
            #expect(server.server.sessions.first?.remoteCandidateCount == 5)
        }
    }

    /// A session's record is bounded in bytes: it keeps the latest entries and counts all.
    @Test func theRecordOfASessionIsBounded() throws {
        try TestServer.run { server in
            let (client, _) = try server.negotiate()
            let giant = String(repeating: "x", count: 512 << 10)
            for number in 0..<8 {
                try client.send(.prompt(PromptMessage(text: giant + String(number), enhance: false)))
                _ = try client.next { if case .message(.promptAck) = $0 { true } else { false } }
            }
            let long = String(repeating: "long ", count: 190)
            for number in 0..<200 {
                try client.send(.prompt(PromptMessage(text: long + String(number), enhance: false)))
            }
            let track = "a=msid:" + giant.prefix(100_000)
            try client.send(.offer(sdp: "v=0\r\n" + [track, track, "a=msid:last track"].joined(separator: "\r\n")))
            try client.awaitAnswer()
            let record = try #require(server.server.sessions.first)
            #expect(record.promptCount == 208)
            #expect(record.prompts.last == long + "199")
            #expect((32_000...64 << 10).contains(record.prompts.reduce(0) { $0 + $1.utf8.count }))
            #expect(record.tracks == ["last track"])
        }
    }

    @Test func tooManyCandidatesAreDropped() throws {
        try TestServer.run { server in
            let (client, media) = try server.negotiate()
            for index in 0..<300 { try client.send(.iceCandidate(CandidateMessage(candidate: "candidate:\(index)"))) }
            try client.expectAccepted()
            #expect(server.server.sessions.first?.remoteCandidateCount == 300)
            #expect(media.remoteCandidates.count == 256)
        }
    }

    /// Only seconds with frames are billed; two without end the generation, and the next frame starts another.
    @Test func silenceIsNotBilled() throws {
        try TestServer.run { server in
            let (client, media) = try server.generate()
            #expect(try client.next() == .message(.generationTick(seconds: 1)))
            #expect(try client.next() == .message(.generationEnded(seconds: 1, reason: "timeout")))
            #expect(server.server.sessions.first?.isGenerating == false)
            media.paint()
            #expect(try client.next() == .message(.generationStarted))
            #expect(try client.next() == .message(.generationTick(seconds: 2)))
            #expect(media.stopCount == 0)
        }
    }

    @Test func generationStartsWithTheFirstFrameAndTicksEverySecond() throws {
        try TestServer.run { server in
            let (client, media) = try server.negotiate()
            #expect(server.server.sessions.first?.isGenerating == false)
            media.paint()
            #expect(try client.next() == .message(.generationStarted))
            media.paint()
            #expect(try client.next() == .message(.generationTick(seconds: 1)))
            media.paint()
            #expect(try client.next() == .message(.generationTick(seconds: 2)))
            media.onEvent(.failed("the peer is gone"))
            // Another tick may already be in flight on a busy machine.
            var event = try client.next()
            var seconds = 2.0
            while event == .message(.generationTick(seconds: seconds + 1)) {
                event = try client.next()
                seconds += 1
            }
            #expect(event == .message(.generationEnded(seconds: seconds, reason: "the peer is gone")))
            #expect(media.isStoppedOnce())
            let record = try #require(server.server.sessions.first)
            #expect(!record.isGenerating)
            #expect(record.tickCount == Int(seconds))
            #expect(record.mediaFailure == "the peer is gone")

            // The session continues: a new offer gets new media.
            try client.send(.offer(sdp: "second"))
            #expect(try client.next() == .message(.answer(sdp: "answer to second")))
        }
    }

    @Test func oneSessionsEndDoesNotTouchAnother() throws {
        try TestServer.run { server in
            let (one, oneMedia) = try server.negotiate()
            let (other, otherMedia) = try server.negotiate()
            oneMedia.onEvent(.failed("broken"))
            _ = try one.next { $0 == .message(.error("broken")) }
            one.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.isOpen == false })
            #expect(oneMedia.isStoppedOnce())
            otherMedia.paint()
            #expect(try other.next() == .message(.generationStarted))
            other.close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            #expect(otherMedia.isStoppedOnce())
        }
    }

    @Test func stoppingTheServerSaysGoodbye() throws {
        try TestServer.run { server in
            let (client, media) = try server.generate()
            server.server.stop()
            #expect(try client.next() == .message(.generationEnded(seconds: 0, reason: "server shutdown")))
            #expect(try client.next() == .closeFrame(code: 1001))
            #expect(try client.next() == .closed)
            #expect(media.isStoppedOnce())
            #expect(throws: (any Error).self) { try server.connect() }
        }
    }
}
