import DecartProtocol
import StandInServer
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct StrictTests {
    /// Messages as the SDKs write them.
    @Test(arguments: [
        // Python 0.2.4, realtime/messages.py.
        #"{"type":"livekit_join"}"#, #"{"type":"prompt","prompt":"x","enhance_prompt":true}"#,
        #"{"type":"set_image","image_data":null,"prompt":null}"#,
        #"{"type":"set_image","image_data":"AA","prompt":"x","enhance_prompt":true}"#,
        // JS 0.1.16, realtime/signaling-channel.ts.
        #"{"type":"livekit_join","passthrough":false,"client_capabilities":{"frame_timing":true}}"#,
        #"{"type":"set_image","image_ref":"file_1"}"#,
        // Swift 0.6.6, SignalingModelTests.swift.
        #"{"type":"livekit_join","initial_state":null}"#,
        #"{"type":"livekit_join","initial_state":{"type":"prompt","prompt":"x","enhance_prompt":false}}"#,
        #"{"type":"livekit_join","initial_state":{"type":"set_image","image_data":"AA","prompt":"x"}}"#,
        // Python 0.0.39, realtime/messages.py; JS 0.0.67, realtime/webrtc-connection.ts.
        #"{"type":"offer","sdp":"v=0"}"#, #"{"type":"answer","sdp":"v=0"}"#,
        #"{"type":"ice-candidate","candidate":null}"#,
        #"{"type":"ice-candidate","candidate":{"candidate":"c","sdpMLineIndex":0,"sdpMid":"0","usernameFragment":"u"}}"#,
    ])
    func whatSDKsSendIsKnown(message: String) throws {
        #expect(StrictRules.unknown(in: try JSONValue(decoding: Array(message.utf8))) == nil)
    }

    /// One for each case of the type, with every field that it can have.
    @Test(arguments: [
        ClientMessage.prompt(PromptMessage(text: "x", enhance: true)), .setImage(.passthrough),
        .setImage(SetImageMessage(image: .data(base64: "AA"), text: .prompt("x"), enhance: true)),
        .setImage(SetImageMessage(image: .reference("file_1"))), .offer(sdp: "v=0"), .answer(sdp: "v=0"),
        .iceCandidate(nil),
        .iceCandidate(CandidateMessage(candidate: "c", sdpMid: "0", sdpMLineIndex: 0, usernameFragment: "u")),
        .livekitJoin(LiveKitJoin(passthrough: true, frameTiming: true)),
        .livekitJoin(LiveKitJoin(initialState: .setImage(.passthrough))),
    ])
    func whatTheElementSendsIsKnown(message: ClientMessage) throws {
        #expect(StrictRules.unknown(in: try JSONValue(decoding: message.encoded())) == nil)
    }

    @Test(arguments: [
        (#"{"type":"subscribe"}"#, "unknown message type subscribe"), ("{}", "unknown message type (none)"),
        (#"{"type":"prompt","prompt":"x","seed":1}"#, "unknown field seed in prompt"),
        (
            #"{"type":"livekit_join","client_capabilities":{"x":1}}"#,
            "unknown field x in client_capabilities of livekit_join"
        ),
        (#"{"type":"livekit_join","initial_state":{"type":"offer","sdp":""}}"#, "unknown field sdp in initial_state"),
        (#"{"type":"set_image","image_data":null,"url":"x"}"#, "unknown field url in set_image"),
    ])
    func anythingElseIsNamedAndTheChannelCloses(message: String, excerpt: String) throws {
        try TestServer.run({ $0.isStrict = true }) { server in
            let client = try server.greeted()
            client.sendText(message.utf8)
            guard case .message(.error(let error, _, _)) = try client.next() else { throw TestClient.TimedOut() }
            #expect("\(error)".contains(excerpt), "\(error)")
            #expect(try client.next() == .closeFrame(code: 1008))
        }
    }

    @Test(arguments: [
        (
            [
                "model": "lucy-2.6", "resolution": "1080p", "speed": "fast", "pixel_latency": "1",
                "livekit_server_codec": "vp9",
            ], nil
        ),
        (["model": "lucy-2.6", "trace": "1"], "trace"), (["model": "lucy-2.6", "speed": "turbo"], "speed: turbo"),
        // Python 0.2.0 and JS 0.1.14 have removed it.
        (["model": "mirage_v2"], "model: mirage_v2"),
    ])
    func queryItemsAndModels(items: [String: String], excerpt: String?) {
        let unknown = StrictRules.unknown(inItems: items)
        #expect(excerpt.map { unknown?.contains($0) == true } ?? (unknown == nil), "\(unknown ?? "nothing")")
    }
}
