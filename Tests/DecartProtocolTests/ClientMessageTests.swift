import DecartProtocol
import Testing

@Suite("Messages to the service", .timeLimit(.minutes(1)))
struct ClientMessageTests {
    /// Expected bytes: keys sorted, nulls where the protocol requires them.
    static let written: [(ClientMessage, String)] = [
        (
            .prompt(PromptMessage(text: "Lego", enhance: true)),
            #"{"enhance_prompt":true,"prompt":"Lego","type":"prompt"}"#
        ),
        (
            .prompt(PromptMessage(text: "a/\"\\\n", enhance: false)),
            #"{"enhance_prompt":false,"prompt":"a/\"\\\n","type":"prompt"}"#
        ),
        (.setImage(.passthrough), #"{"image_data":null,"prompt":null,"type":"set_image"}"#),
        (.setImage(SetImageMessage(image: .data(base64: "AAA/"))), #"{"image_data":"AAA/","type":"set_image"}"#),
        (
            .setImage(SetImageMessage(image: .data(base64: "AAA="), text: .none)),
            #"{"image_data":"AAA=","prompt":null,"type":"set_image"}"#
        ),
        (
            .setImage(SetImageMessage(image: .data(base64: "AA"), text: .prompt("x"), enhance: false)),
            #"{"enhance_prompt":false,"image_data":"AA","prompt":"x","type":"set_image"}"#
        ),
        (
            .setImage(SetImageMessage(image: .none, text: .prompt("x"), enhance: true)),
            #"{"enhance_prompt":true,"image_data":null,"prompt":"x","type":"set_image"}"#
        ),
        (
            .setImage(SetImageMessage(image: .reference("cat"), text: .prompt("x"))),
            #"{"image_ref":"cat","prompt":"x","type":"set_image"}"#
        ),
        (.offer(sdp: "v=0\r\n"), #"{"sdp":"v=0\r\n","type":"offer"}"#),
        (.answer(sdp: "v=0"), #"{"sdp":"v=0","type":"answer"}"#),
        (.iceCandidate(nil), #"{"candidate":null,"type":"ice-candidate"}"#),
        (
            .iceCandidate(CandidateMessage(candidate: "candidate:1 1 UDP", sdpMid: "0", sdpMLineIndex: 0)),
            #"{"candidate":{"candidate":"candidate:1 1 UDP","sdpMLineIndex":0,"sdpMid":"0"},"type":"ice-candidate"}"#
        ),
        (
            .iceCandidate(CandidateMessage(candidate: "c")),
            #"{"candidate":{"candidate":"c","sdpMLineIndex":null,"sdpMid":null},"type":"ice-candidate"}"#
        ),
        (.livekitJoin(LiveKitJoin()), #"{"type":"livekit_join"}"#),
        (
            .livekitJoin(LiveKitJoin(passthrough: true, frameTiming: true)),
            #"{"client_capabilities":{"frame_timing":true},"passthrough":true,"type":"livekit_join"}"#
        ),
        (
            .livekitJoin(LiveKitJoin(initialState: .prompt(PromptMessage(text: "x", enhance: false)))),
            #"{"initial_state":{"enhance_prompt":false,"prompt":"x","type":"prompt"},"type":"livekit_join"}"#
        ),
        (
            .livekitJoin(LiveKitJoin(initialState: .setImage(.passthrough))),
            #"{"initial_state":{"image_data":null,"prompt":null,"type":"set_image"},"type":"livekit_join"}"#
        ),
        (.unknown(type: "hello"), #"{"type":"hello"}"#),
    ]

    @Test(arguments: written.indices) func writesAndReads(_ index: Int) throws {
        let (message, text) = ClientMessageTests.written[index]
        let bytes = try message.encoded()
        #expect(String(decoding: bytes, as: UTF8.self) == text)
        #expect(try ClientMessage(decoding: bytes) == message)
    }

    static let accepted: [(String, ClientMessage)] = [
        (#"{"type":"prompt","prompt":"x"}"#, .prompt(PromptMessage(text: "x", enhance: false))),
        (#"{"type":"set_image","image_data":null}"#, .setImage(SetImageMessage(image: .none))),
        (
            #"{"type":"set_image","image_data":"AA","image_ref":null,"prompt":null,"enhance_prompt":null}"#,
            .setImage(SetImageMessage(image: .data(base64: "AA"), text: .none))
        ),
        (#"{"type":"livekit_join","initial_state":null,"client_capabilities":null}"#, .livekitJoin(LiveKitJoin())),
        (
            #"{"type":"livekit_join","client_capabilities":{"frame_timing":false,"x":1}}"#,
            .livekitJoin(LiveKitJoin(frameTiming: false))
        ),
        (#"{"type":"subscribe","x":{}}"#, .unknown(type: "subscribe")),
    ]

    @Test(arguments: accepted.indices) func reads(_ index: Int) throws {
        let (text, message) = ClientMessageTests.accepted[index]
        #expect(try ClientMessage(decoding: [UInt8](text.utf8)) == message)
    }

    @Test(arguments: [
        #"{"type":"prompt"}"#, #"{"type":"prompt","prompt":null}"#, #"{"type":"prompt","prompt":7}"#,
        #"{"type":"set_image"}"#, #"{"type":"set_image","prompt":"x"}"#, #"{"type":"set_image","image_data":7}"#,
        #"{"type":"set_image","image_ref":7}"#, #"{"type":"set_image","image_data":null,"prompt":7}"#,
        #"{"type":"offer"}"#, #"{"type":"ice-candidate"}"#, #"{"type":"livekit_join","initial_state":7}"#,
        #"{"type":"livekit_join","initial_state":{"type":"offer","sdp":"x"}}"#,
        #"{"type":"livekit_join","initial_state":{}}"#,
    ])
    func refuses(_ text: String) {
        #expect(throws: ProtocolError.self) { try ClientMessage(decoding: [UInt8](text.utf8)) }
    }

    @Test func largeImagesFit() throws {
        let base64 = String(repeating: "A", count: 14_000_000)
        let message = ClientMessage.setImage(SetImageMessage(image: .data(base64: base64)))
        #expect(try ClientMessage(decoding: message.encoded()) == message)
        #expect(throws: ProtocolError.self) { try ClientMessage(decoding: message.encoded(), maximumSize: 1 << 20) }
    }
}
