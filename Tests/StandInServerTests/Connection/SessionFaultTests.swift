import DecartProtocol
import StandInServer
import Testing

/// Faults of the open control channel.
@Suite(.timeLimit(.minutes(1)))
struct SessionFaultTests {
    private let lego = ClientMessage.prompt(PromptMessage(text: "lego", enhance: false))
    private let legoAck = TestClient.Event.message(.promptAck(PromptAck(prompt: "lego", success: true)))

    @Test(arguments: FaultKind.CloseCode.allCases)
    func closeAtJoin(code: FaultKind.CloseCode) throws {
        try withRawClient("close_\(code.rawValue)_at_join") { client, _ in
            #expect(client.read() == .finished)
            #expect(client.received == [0x88, 2, UInt8(code.rawValue >> 8), UInt8(code.rawValue & 255)])
        }
    }

    @Test(arguments: FaultKind.CloseCode.allCases)
    func closeAfterATime(code: FaultKind.CloseCode) throws {
        try withRawClient("close_\(code.rawValue)_at_T:at=0.2,reason=because") { client, _ in
            #expect(client.read() == .finished)
            let close = try #require(client.frames.last)
            #expect(close.first == 0x88)
            #expect(close.payload == [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 255)] + Array("because".utf8))
            #expect(client.frames.count == 3)
        }
    }

    @Test func closeWhenConnected() throws {
        try withFaults("close_1012_at_connected") { server in
            let client = try server.generate().client
            #expect(try client.next() == .closeFrame(code: 1012))
            #expect(try client.next() == .closed)
        }
    }

    @Test func tcpIsReset() throws {
        try withRawClient("drop_tcp_at_T:at=1") { client, server in
            #expect(client.read() == .reset)
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
        }
    }

    @Test func silentAtFirst() throws {
        try withFaults("no_first_message") { server in
            let client = try server.connect()
            try client.expectAccepted()
        }
    }

    // No closure in the macro's arguments: Swift 6.0 crashes there.
    private static let errorMessages: [(String, ServerMessage)] =
        [
            ("error_permanent", .error("invalid api key")), ("error_transient", .error("internal error, try again")),
            ("error_decoy401", .error("frame 14012 could not be decoded")),
        ] + ErrorTypes.all.map { ("error_type:type=\($0),reason=some words", .error("some words", type: $0)) }

    @Test func noCapacity() throws {
        try withClient("error_type:type=capacity,reason=full,delay=15") { client, _ throws in
            #expect(try client.next() == .message(.error("full", type: "capacity", retryAfter: 15)))
            #expect(try client.next() == .closeFrame(code: 1013))
        }
    }

    @Test(arguments: errorMessages)
    func errors(spec: String, message: ServerMessage) throws {
        try withClient(spec) { client, _ throws in
            #expect(try client.next() == .message(message))
        }
    }

    @Test(
        arguments: [
            ("queue_n:n=3,interval=0.05", [(3, 3), (2, 3), (1, 3)]),
            ("queue_jump:interval=0.01", [(3, 3), (12, 12), (1, 3), (6, nil), (27, 3), (0, 3), (2, 3)]),
        ] as [(String, [(Int, Int?)])])
    func aQueueThatMovesOrJumps(spec: String, places: [(Int, Int?)]) throws {
        try withFaults(spec) { server in
            let client = try server.connect()
            #expect(try client.next() == .message(.status("entering queue")))
            for (place, size) in places {
                #expect(try client.next() == .message(.queuePosition(QueuePosition(position: place, size: size))))
            }
            _ = try client.expectGreeting()
        }
    }

    @Test func aQueueForEver() throws {
        try withFaults("queue_forever:n=7,interval=0.02") { server in
            let client = try server.connect()
            #expect(try client.next() == .message(.status("entering queue")))
            for _ in 0..<10 {
                #expect(try client.next() == .message(.queuePosition(QueuePosition(position: 7, size: 7))))
            }
        }
    }

    @Test func pingsWithoutAnAnswer() throws {
        try withClient("no_pong") { client, _ in
            client.ping([1])
            try client.expectAccepted()
        }
    }

    @Test func mute() throws {
        try withClient("mute:at=0") { client, server in
            client.ping([1])
            try client.send(lego)
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.prompts == ["lego"] })
            #expect(throws: TestClient.TimedOut.self) { try client.next(milliseconds: 200) }
        }
    }

    @Test func pingFlood() throws {
        try withRawClient("ping_flood:n=3000") { client, _ in
            #expect(client.read(seconds: 20) { $0.count >= 3000 * 6 } == nil)
            #expect(client.frames.count { $0.first == 0x89 && $0.length == 4 } >= 2950)
        }
    }

    // MARK: Acknowledgements

    @Test func acknowledgementsAreLeftOutAfterTheFirst() throws {
        try withClient("ack_none:skip=1") { client, _ in
            try client.expectAccepted()
            try client.send(lego)
            try client.send(.setImage(.passthrough))
            client.ping([9])
            #expect(try client.next() == .pong([9]))
        }
    }

    @Test func acknowledgementsComeLate() throws {
        try withClient("ack_late:delay=1") { client, _ in
            let start = ContinuousClock.now
            try client.send(lego)
            client.ping([9])
            #expect(try client.next() == .pong([9]))
            #expect(try client.next() == legoAck)
            #expect(ContinuousClock.now - start >= .milliseconds(990))
        }
    }

    @Test func acknowledgementsNameAnotherPrompt() throws {
        try withClient("ack_wrong") { client, _ in
            try client.send(lego)
            guard case .message(.promptAck(let ack)) = try client.next() else { throw TestClient.TimedOut() }
            #expect(ack.prompt != nil && ack.prompt != "lego")
        }
    }

    @Test func refusedAfterTheFirst() throws {
        try withClient("ack_fail:skip=1") { client, server in
            try client.expectAccepted()
            try client.send(lego)
            guard case .message(.promptAck(let ack)) = try client.next() else { throw TestClient.TimedOut() }
            #expect(!ack.success && ack.error != nil)
            try client.send(.setImage(.passthrough))
            guard case .message(.setImageAck(let image)) = try client.next() else { throw TestClient.TimedOut() }
            #expect(!image.success)
            #expect(server.server.sessions.first?.refusalCount == 2)
        }
    }

    // MARK: Bytes

    @Test(
        arguments: [
            ("ws_rsv", 0xc1), ("ws_opcode", 0x83), ("bad_json_utf8", 0x81), ("bad_json_depth", 0x81),
            ("bad_json_size", 0x81),
        ] as [(String, UInt8)])
    func frames(spec: String, first: UInt8) throws {
        try withRawClient(spec) { client, _ in
            let least = spec == "bad_json_size" ? 2 << 20 : spec == "bad_json_depth" ? 200_000 : 1
            _ = client.read { _ in client.frames.count > 2 && client.frames[2].payload.count >= least }
            let frame = try #require(client.frames.dropFirst(2).first)
            #expect(frame.first == first)
            #expect(!frame.isMasked)
            if spec == "bad_json_utf8" { #expect(String(validating: frame.payload, as: UTF8.self) == nil) }
            if spec == "bad_json_size" { #expect(frame.payload.count > 2 << 20) }
            if spec == "bad_json_depth" { #expect(frame.payload.count { $0 == UInt8(ascii: "[") } == 100_000) }
        }
    }

    @Test(
        arguments: [("ws_masked", nil), ("ws_huge_len:n=17825792", 17 << 20), ("ws_huge_len", UInt64(Int.max))]
            as [(String, UInt64?)])
    func aMaskedOrHugeFrame(spec: String, length: UInt64?) throws {
        try withRawClient(spec) { client, _ in
            _ = client.read { _ in client.frames.count > 2 }
            let frame = try #require(client.frames.last)
            #expect(frame.isMasked == (length == nil))
            if let length { #expect(frame.length == length) }
        }
    }

    @Test func fragmentsWithoutEnd() throws {
        try withRawClient("ws_fragments") { client, _ in
            _ = client.read { $0.count > 10_000 }
            let fragments = client.frames.dropFirst(2)
            #expect(fragments.count > 1000)
            #expect(fragments.first?.first == 0x01)
            #expect(fragments.dropFirst().dropLast().allSatisfy { $0.first == 0x00 && $0.length == 1 })
        }
    }

    @Test func aMessageOfManyFragments() throws {
        try withRawClient("ws_fragments:n=100") { client, _ in
            _ = client.read { _ in client.frames.last?.first == 0x80 }
            let expected: [UInt8?] = [0x01] + Array(repeating: 0, count: 98) + [0x80]
            #expect(client.frames.dropFirst(2).map(\.first) == expected)
        }
    }

    @Test func wrongTypesDoNotEndTheSession() throws {
        try withClient("bad_json_type") { client, _ in
            var unreadable = 0
            for _ in 0..<17 { if case .unreadable = try client.next() { unreadable += 1 } }
            #expect(unreadable >= 10)
            try client.expectAccepted()
        }
    }

    // MARK: Negotiation

    private static let offer =
        "v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=fingerprint:sha-256 AA:BB\r\na=rtpmap:96 VP8/90000\r\n"
        + "a=candidate:1 1 UDP 1 127.0.0.1 9 typ host\r\n"

    private func answer(_ server: TestServer) throws -> String {
        let client = try server.greeted()
        try client.send(.offer(sdp: Self.offer))
        guard case .message(.answer(let sdp)) = try client.next() else { throw TestClient.TimedOut() }
        client.close()
        return sdp
    }

    @Test func answersAreBent() throws {
        try withFaults { server in
            #expect(try answer(server).contains("a=fingerprint:sha-256 AA:BB"))
            try server.server.setFaults([Fault(.sdp(.bad))])
            #expect(try !answer(server).contains("v=0"))
            try server.server.setFaults([Fault(.sdp(.huge))])
            #expect(try answer(server).utf8.count >= 512 << 10)
            try server.server.setFaults([Fault(.sdp(.noFingerprint))])
            #expect(try !answer(server).contains("fingerprint"))
            try server.server.setFaults([Fault(.sdp(.badFingerprint))])
            let bad = try answer(server)
            #expect(bad.contains("a=fingerprint:sha-256 ") && !bad.contains("AA:BB\r"))
            try server.server.setFaults([Fault(.sdp(.otherCodec))])
            let other = try answer(server)
            #expect(other.contains("a=rtpmap:96 X-UNKNOWN/90000") && !other.contains("VP8"))
        }
    }

    /// Returns the candidates that the client got before the pong, and those that the media got.
    private func candidates(
        _ spec: String
    ) throws -> (client: [CandidateMessage?], media: [CandidateMessage?], offer: String, answer: String) {
        var found: [CandidateMessage?] = []
        var answer = ""
        var media: FakeMedia?
        try withClient(spec) { client, server in
            try client.send(.offer(sdp: Self.offer))
            _ = try client.next {
                guard case .message(.answer(let sdp)) = $0 else { return false }
                answer = sdp
                return true
            }
            try client.send(.iceCandidate(CandidateMessage(candidate: "candidate:9", sdpMid: "0", sdpMLineIndex: 0)))
            client.ping([])
            loop: while true {
                switch try client.next() {
                case .message(.iceCandidate(let candidate)): found.append(candidate)
                case .pong: break loop
                default: break
                }
            }
            media = server.engine.sessions.last
        }
        return (found, media?.remoteCandidates ?? [], media?.offer ?? "", answer)
    }

    @Test func candidatesAreBent() throws {
        let honest = try candidates("no_pong:after=1000")
        #expect(honest.client.isEmpty && honest.media.count == 1 && honest.offer.contains("a=candidate:"))
        #expect(honest.answer.hasSuffix("a=candidate:1\r\na=end-of-candidates\r\n"))
        let none = try candidates("ice_none")
        #expect(none.client.isEmpty && none.media.isEmpty && !none.offer.contains("a=candidate:"))
        let late = try candidates("ice_late:delay=60")
        #expect(late.client.isEmpty && late.media.isEmpty)
        let tcp = try candidates("ice_tcp_only")
        #expect(tcp.client.count == 2 && tcp.media.isEmpty)
        #expect(tcp.client.first??.candidate.hasSuffix("tcptype passive") == true)
        let bad = try candidates("ice_bad_candidate")
        #expect(bad.client.count > 10 && bad.client.last == .some(nil) && bad.media.count == 1)
        #expect(bad.client.contains { $0?.candidate == "candidate:1" })
    }

    // MARK: Ends

    @Test func theSessionsTimeIsUp() throws {
        try withFaults("session_limit_at_T:at=1.5") { server in
            let (client, media) = try server.negotiate()
            #expect(try client.next() == .message(.generationEnded(seconds: nil, reason: "timeout")))
            #expect(try client.next() == .closeFrame(code: 1000))
            #expect(try client.next() == .closed)
            #expect(media.isStoppedOnce())
        }
    }

    @Test(arguments: [
        ("generation_ended:at=1.5", "insufficient_credits"), ("generation_ended:at=1.5,reason=gone", "gone"),
    ])
    func generationEnds(spec: String, reason: String) throws {
        try withFaults(spec) { server in
            let (client, media) = try server.generate()
            #expect(try generationEnd(client) == reason)
            client.ping([1])
            #expect(try client.next() == .pong([1]))
            // Session and media stay; the media only stop painting.
            #expect(media.stopCount == 0 && media.reported.isEmpty)
            #expect(server.server.sessions.first?.isGenerating == false)
        }
    }

    @Test(arguments: Fault.Output.allCases)
    func generationRestarts(output: Fault.Output) throws {
        try withFaults("generation_restart:at=1.2,delay=0.3,output=\(output.rawValue)") { server in
            let (client, media) = try server.generate()
            #expect(try generationEnd(client) == "timeout")
            #expect(try client.next() == .message(.generationStarted))
            if output == .offer || output == .newMID {
                #expect(try client.next() == .message(.offer(sdp: "own offer")))
                try client.send(.answer(sdp: "yes"))
                // An offer accepts one answer only.
                try client.send(.answer(sdp: "yes again"))
                guard case .message(.error) = try client.next() else { throw TestClient.TimedOut() }
                #expect(media.reported == ["restart \(output.rawValue)", "answer yes"])
                #expect(server.server.sessions.first?.answerCount == 2)
            } else {
                // The media are restarted after the message is sent, and before a ping is answered.
                client.ping([1])
                #expect(try client.next() == .pong([1]))
                #expect(media.reported == ["restart \(output.rawValue)"])
            }
            // The tick counter continues across generations.
            media.paint()
            guard case .message(.generationTick(let seconds)) = try client.next() else { throw TestClient.TimedOut() }
            #expect((seconds ?? 0) >= 1)
            #expect(media.stopCount == 0)
        }
    }

    /// The reason, after as many ticks as the generation has had seconds.
    private func generationEnd(_ client: TestClient) throws -> String? {
        while true {
            switch try client.next() {
            case .message(.generationTick): continue
            case .message(.generationEnded(_, let reason)): return reason
            default: throw TestClient.TimedOut()
            }
        }
    }

    /// Between end and start the session replies as usual, and a generation that is not running cannot end again.
    @Test func betweenGenerations() throws {
        try withFaults("generation_restart:at=1,delay=60") { server in
            let (client, media) = try server.negotiate()
            #expect(try client.next() == .message(.generationEnded(seconds: nil, reason: "timeout")))
            try client.expectAccepted()
            try server.server.inject([Fault(parsing: "generation_ended")])
            try client.expectAccepted()
            #expect(media.stopCount == 0)
        }
    }
}
