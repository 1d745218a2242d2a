import DecartProtocol
import TestSupport
import Testing

@Suite("Messages from the service", .timeLimit(.minutes(1)))
struct ServerMessageTests {
    static let accepted: [(String, ServerMessage)] = [
        (#"{"type":"status","status":"Server is Ready"}"#, .status("Server is Ready")),
        (
            #"{"type":"queue_position","position":3,"queue_size":12}"#,
            .queuePosition(QueuePosition(position: 3, size: 12))
        ),
        (
            #"{"type":"queue_position","queue_position":3,"queue_size":12}"#,
            .queuePosition(QueuePosition(position: 3, size: 12))
        ),
        (#"{"type":"queue_position","position":0}"#, .queuePosition(QueuePosition(position: 0))),
        (
            #"{"type":"queue_position","position":3.0,"queue_size":"12"}"#,
            .queuePosition(QueuePosition(position: 3, size: 12))
        ),
        (#"{"type":"queue_position","position":3,"queue_size":-1}"#, .queuePosition(QueuePosition(position: 3))),
        (#"{"type":"queue_position","position":3,"queue_size":1e400}"#, .queuePosition(QueuePosition(position: 3))),
        (#"{"type":"ready"}"#, .ready),
        (#"{"\u0074ype":"ready","\"\\\/\b\u00E9\ud83D\uDE00":"\ud800"}"#, .ready),
        (#"{"type":"session_id","session_id":"abc"}"#, .sessionID(SessionIdentity(id: "abc"))),
        (#"{"type":"session_id","sessionId":"abc"}"#, .sessionID(SessionIdentity(id: "abc"))),
        (
            #"{"type":"session_id","session_id":"abc","server_ip":"1.2.3.4","server_port":8080}"#,
            .sessionID(SessionIdentity(id: "abc", serverIP: "1.2.3.4", serverPort: 8080))
        ),
        (
            #"{"type":"session_id","session_id":"abc","server_port":"8080"}"#,
            .sessionID(SessionIdentity(id: "abc", serverPort: 8080))
        ),
        (#"{"type":"session_id","session_id":"abc","server_port":70000}"#, .sessionID(SessionIdentity(id: "abc"))),
        (
            #"{"type":"session_id","session_id":"abc","server_ip":null,"server_port":null}"#,
            .sessionID(SessionIdentity(id: "abc"))
        ),
        (
            #"{"type":"prompt_ack","prompt":"x","success":true,"error":null}"#,
            .promptAck(PromptAck(prompt: "x", success: true))
        ),
        (
            #"{"type":"prompt_ack","prompt":"x","success":false,"error":"no"}"#,
            .promptAck(PromptAck(prompt: "x", success: false, error: "no"))
        ),
        (#"{"type":"prompt_ack","success":true}"#, .promptAck(PromptAck(prompt: nil, success: true))),
        (#"{"type":"prompt_ack","prompt":"x"}"#, .promptAck(PromptAck(prompt: "x", success: true))),
        (
            #"{"type":"prompt_ack","prompt":"x","error":"no"}"#,
            .promptAck(PromptAck(prompt: "x", success: false, error: "no"))
        ),
        (#"{"type":"prompt_ack","prompt":"x","success":"yes"}"#, .promptAck(PromptAck(prompt: "x", success: true))),
        (#"{"type":"set_image_ack","success":true}"#, .setImageAck(SetImageAck(success: true))),
        (
            #"{"type":"set_image_ack","success":false,"error":"blurry"}"#,
            .setImageAck(SetImageAck(success: false, error: "blurry"))
        ),
        (
            #"{"type":"set_image_ack","error":"blurry"}"#,
            .setImageAck(SetImageAck(success: false, error: "blurry"))
        ),
        (#"{"type":"set_image_ack"}"#, .setImageAck(SetImageAck(success: true))),
        (#"{"type":"offer","sdp":"v=0"}"#, .offer(sdp: "v=0")),
        (#"{"type":"answer","sdp":"v=0\r\n"}"#, .answer(sdp: "v=0\r\n")),
        (#"{"type":"ice-candidate","candidate":null}"#, .iceCandidate(nil)),
        (
            #"{"type":"ice-candidate","candidate":{"candidate":"candidate:1","sdpMid":"0","sdpMLineIndex":0}}"#,
            .iceCandidate(CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0))
        ),
        (
            #"{"type":"ice-candidate","candidate":{"candidate":"c","sdpMid":null,"sdpMLineIndex":null}}"#,
            .iceCandidate(CandidateMessage(candidate: "c"))
        ),
        (
            #"{"type":"ice-candidate","candidate":{"candidate":"c","usernameFragment":"u"}}"#,
            .iceCandidate(CandidateMessage(candidate: "c", usernameFragment: "u"))
        ),
        (
            #"{"type":"ice-candidate","candidate":{"candidate":"","sdpMLineIndex":-3}}"#,
            .iceCandidate(CandidateMessage(candidate: "", sdpMLineIndex: -3))
        ),
        (
            #"{"type":"turn_config","urls":["turn:a","turn:b"],"username":"u","credential":"c"}"#,
            .turnConfig(TURNConfig(urls: ["turn:a", "turn:b"], username: "u", credential: Secret("c")))
        ),
        (#"{"type":"turn_config","urls":[]}"#, .turnConfig(TURNConfig(urls: []))),
        (
            #"{"type":"turn_config","urls":["1","2","3","4","5","6","7","8","9"]}"#,
            .turnConfig(TURNConfig(urls: ["1", "2", "3", "4", "5", "6", "7", "8"]))
        ),
        (
            #"{"type":"livekit_room_info","livekit_url":"wss://l","token":"t","room_name":"r","session_id":"s"}"#,
            .livekitRoomInfo(LiveKitRoomInfo(url: "wss://l", token: Secret("t"), roomName: "r", sessionID: "s"))
        ),
        (#"{"type":"generation_started"}"#, .generationStarted),
        (#"{"type":"generation_tick","seconds":12}"#, .generationTick(seconds: 12)),
        (#"{"type":"generation_tick","seconds":1.5}"#, .generationTick(seconds: 1.5)),
        (#"{"type":"generation_tick"}"#, .generationTick(seconds: nil)),
        (#"{"type":"generation_tick","seconds":1e999}"#, .generationTick(seconds: nil)),
        (
            #"{"type":"generation_ended","seconds":3,"reason":"insufficient_credits"}"#,
            .generationEnded(seconds: 3, reason: "insufficient_credits")
        ),
        (#"{"type":"generation_ended"}"#, .generationEnded(seconds: nil, reason: nil)),
        (#"{"type":"error","error":"bad"}"#, .error("bad")),
        (#"{"type":"error","message":"bad"}"#, .error("bad")),
        (#"{"type":"error","error":"","message":"bad"}"#, .error("bad")),
        (#"{"type":"error","error":{"message":"bad","code":4}}"#, .error("bad")),
        (#"{"type":"error"}"#, .error("unspecified error")),
        (#"{"type":"error","error":"bad","error_type":"new_word","x":1}"#, .error("bad", type: "new_word")),
        (
            #"{"type":"error","error":"full","error_type":"capacity","retry_after":15}"#,
            .error("full", type: "capacity", retryAfter: 15)
        ),
        (#"{"type":"error","error":"bad","retry_after":1.5}"#, .error("bad", retryAfter: 1.5)),
        (#"{"type":"error","error":"bad","retry_after":"15"}"#, .error("bad")),
        (#"{"type":"error","error":"bad","retry_after":1e999}"#, .error("bad")),
        (#"{"type":"error","error":"bad","error_type":null}"#, .error("bad")),
        (#"{"type":"error","error":"bad","error_type":7}"#, .error("bad")),
        (#"{"type":"brand_new","anything":[1,2,{"a":null}]}"#, .unknown(type: "brand_new")),
        // The JSON parser is lenient here, and that does no harm.
        (#"{"type":"ready",}"#, .ready),
        (#"{"type":"ready","x":01}"#, .ready),
        (#"{"type":""}"#, .unknown(type: "")),
        (#"{"type":"READY"}"#, .unknown(type: "READY")),
        (" \r\n\t{\"type\" : \"ready\"} \n", .ready),
        (#"{"type":"status","status":"\u00e9\ud83d\ude00\/"}"#, .status("é😀/")),
        (#"{"type":"error","error":"{[\"}]"}"#, .error("{[\"}]")),
    ]

    @Test(arguments: accepted.indices) func decodes(_ index: Int) throws {
        let (text, message) = ServerMessageTests.accepted[index]
        let decoded = try ServerMessage(decoding: [UInt8](text.utf8))
        #expect(decoded == message, "\(text)")
        // The encoded message decodes to the same value.
        #expect(try ServerMessage(decoding: decoded.encoded()) == message, "\(text)")
    }

    static let refused: [String] = [
        "", " ", "null", "true", "3", "\"ready\"", "[]", #"[{"type":"ready"}]"#, "{", "}", "{}", #"{"type"}"#,
        #"{"type":3}"#, #"{"type":null}"#, #"{"type":["ready"]}"#, #"{"type":{}}"#, #"{"type":"ready""#,
        #"{"type":"ready"}}"#, #"{"type":"ready"},"#, #"{"type":"ready"} {"type":"ready"}"#, #"{'type':'ready'}"#,
        #"{type:"ready"}"#, #"{"type":"ready"}x"#, "\u{FEFF}{\"type\":\"ready\"}",
        #"{"type":"status"}"#, #"{"type":"status","status":null}"#, #"{"type":"status","status":3}"#,
        #"{"type":"queue_position"}"#, #"{"type":"queue_position","position":"x"}"#,
        #"{"type":"queue_position","position":-1}"#, #"{"type":"queue_position","position":1e400}"#,
        #"{"type":"queue_position","position":1e30}"#, #"{"type":"queue_position","position":1.5}"#,
        #"{"type":"queue_position","position":NaN}"#, #"{"type":"queue_position","position":99999999999999999999}"#,
        #"{"type":"session_id"}"#, #"{"type":"session_id","session_id":""}"#, #"{"type":"session_id","session_id":7}"#,
        #"{"type":"offer"}"#, #"{"type":"offer","sdp":""}"#, #"{"type":"offer","sdp":null}"#,
        #"{"type":"answer","sdp":{}}"#, #"{"type":"ice-candidate"}"#, #"{"type":"ice-candidate","candidate":"c"}"#,
        #"{"type":"ice-candidate","candidate":{}}"#, #"{"type":"ice-candidate","candidate":[]}"#,
        #"{"type":"ice-candidate","candidate":{"candidate":null}}"#, #"{"type":"turn_config"}"#,
        #"{"type":"turn_config","urls":"turn:a"}"#, #"{"type":"turn_config","urls":[1]}"#,
        #"{"type":"livekit_room_info","token":"t"}"#, #"{"type":"livekit_room_info","livekit_url":"u"}"#,
        "{\"type\":\"status\",\"status\":\"a\u{1}b\"}", "{\"type\":\"status\",\"status\":\"a\nb\"}",
        "{\"type\":\"ready\"\u{0}}", "{\u{B}\"type\":\"ready\"}", #"{"type":"status","status":"\x"}"#,
        #"{"type":"status","status":"\u12"}"#, #"{"type":"status","status":"\ud800"}"#,
        #"{"type":"status","status":"\udc00\ud800"}"#, #"{"type":"status","status":"abc}"#,
        #"{"type":"ready","x":+1}"#, #"{"type":"ready","x":.5}"#, #"{"type":"ready","x":0x10}"#,
        #"{"type":"ready","\3":1}"#, #"{"type":"ready","x":[{"\ud800":1}]}"#, #"{"\ud800\n":1,"type":"ready"}"#,
        #"{"type":"ready","\udc00\ud800":1}"#, #"{"type":"ready","\u12":1}"#, #"{"type":"ready","\u+123" :1}"#,
        #"{"type":"ready","x":Infinity}"#, #"{"type":"ready" /* hello */}"#,
    ]

    @Test(arguments: refused) func refuses(_ text: String) {
        #expect(throws: ProtocolError.self) { try ServerMessage(decoding: [UInt8](text.utf8)) }
    }

    @Test func refusesBytesThatAreNoUTF8() {
        let head = [UInt8](#"{"type":"status","status":""#.utf8)
        let tail = [UInt8](#""}"#.utf8)
        for bytes: [UInt8] in [
            [0x80], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF], [0xE2, 0x82],
        ] {
            #expect(throws: ProtocolError.self) { try ServerMessage(decoding: head + bytes + tail) }
        }
        // UTF-16 without and with a byte order mark.
        let wide = #"{"type":"ready"}"#.utf8.flatMap { byte -> [UInt8] in [byte, 0] }
        #expect(throws: ProtocolError.self) { try ServerMessage(decoding: wide) }
        #expect(throws: ProtocolError.self) { try ServerMessage(decoding: [0xFF, 0xFE] + wide) }
    }

    @Test func depthIsBounded() throws {
        func nested(_ depth: Int, _ open: String, _ close: String) -> [UInt8] {
            let inner = String(repeating: open, count: depth - 1) + "1" + String(repeating: close, count: depth - 1)
            return [UInt8]("{\"type\":\"ready\",\"x\":\(inner)}".utf8)
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            #expect(try ServerMessage(decoding: nested(32, open, close)) == .ready)
            #expect(throws: ProtocolError.self) { try ServerMessage(decoding: nested(33, open, close)) }
            #expect(throws: ProtocolError.self) { try ServerMessage(decoding: nested(100_000, open, close)) }
        }
        // Brackets in strings do not count as nesting.
        let text = String(repeating: "[{", count: 1000)
        #expect(try ServerMessage(decoding: [UInt8](#"{"type":"error","error":"\#(text)"}"#.utf8)) == .error(text))
    }

    @Test func sizeIsBounded() throws {
        let frame = #"{"type":"error","error":""}"#
        let full = String(repeating: "a", count: (1 << 20) - frame.utf8.count)
        let fits = [UInt8](#"{"type":"error","error":"\#(full)"}"#.utf8)
        #expect(fits.count == 1 << 20)
        #expect(try ServerMessage(decoding: fits) == .error(full))
        #expect(throws: ProtocolError.self) { try ServerMessage(decoding: fits + [0x20]) }
    }

    @Test func manyMembersAndDuplicatesAreHarmless() throws {
        let members = (0..<20_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
        #expect(try ServerMessage(decoding: [UInt8]("{\"type\":\"ready\",\(members)}".utf8)) == .ready)
        _ = try? ServerMessage(decoding: [UInt8](#"{"type":"ready","type":"status","status":"x"}"#.utf8))
    }

    @Test(arguments: [
        #"{"type":"turn_config","urls":7,"credential":"canary"}"#, #"{"type":"canary""#,
        #"{"type":"livekit_room_info","token":"canary"}"#, #"{"type":"status","status":{"canary":1}}"#,
    ])
    func errorsDoNotQuoteTheMessage(text: String) throws {
        let error = thrown(ProtocolError.self) { try ServerMessage(decoding: [UInt8](text.utf8)) }
        #expect(try !"\(#require(error))".contains("canary"))
    }

    @Test func secretsDescribeThemselvesRedacted() {
        for message in [
            ServerMessage.turnConfig(TURNConfig(urls: [], credential: Secret("canary"))),
            .livekitRoomInfo(LiveKitRoomInfo(url: "", token: Secret("canary"))),
        ] {
            var text = "\(message) \(String(reflecting: message))"
            dump(message, to: &text)
            #expect(!text.contains("canary"))
        }
    }

    /// Seeded mutations of every accepted message give an error or a value, never a trap.
    @Test func mutations() {
        var generator = SeededGenerator(seed: 0x5EED)
        func random(_ bound: Int) -> Int { generator.below(bound) }
        let alphabet = [UInt8](#"{}[]",:\0123456789.eE+-ntfu "#.utf8) + [0, 0x1F, 0x80, 0xC3, 0xED, 0xFF]
        var decoded = 0
        for round in 0..<20_000 {
            var bytes = [UInt8](ServerMessageTests.accepted[round % ServerMessageTests.accepted.count].0.utf8)
            for _ in 0...random(3) where !bytes.isEmpty {
                switch random(4) {
                case 0: bytes[random(bytes.count)] = alphabet[random(alphabet.count)]
                case 1: bytes.remove(at: random(bytes.count))
                case 2: bytes.insert(alphabet[random(alphabet.count)], at: random(bytes.count))
                default: bytes.removeLast(random(bytes.count))
                }
            }
            if let message = try? ServerMessage(decoding: bytes) {
                decoded += 1
                _ = try? message.encoded()
            }
        }
        #expect(decoded > 1000)
    }
}
