import DecartProtocol
import TestSupport
import Testing

@Suite struct ControlRecordingTests {
    private static let header = #"{"recording":"decart-control","format":1}"#

    private static func parse(_ lines: String...) throws(ControlRecordingError) -> ControlRecording {
        try ControlRecording(parsing: [UInt8](([header] + lines).joined(separator: "\n").utf8))
    }

    @Test func textComesBackEqual() throws {
        let events: [ControlRecording.Event] = [
            .opened, .sent(type: "prompt"), .received(.made(.answer)), .received(.made(.roomInfo)),
            .received(.malformed), .received(.plain(.promptAck(PromptAck(prompt: PromptName.name(2), success: true)))),
            .received(.plain(.generationEnded(seconds: 2.5, reason: "timeout"))), .closed(code: 1011, reason: "a\nb"),
            .closed(code: nil, reason: ""), .failed(httpStatus: 503, reason: "busy"),
            .failed(httpStatus: nil, reason: ""), .left,
        ]
        let recording = ControlRecording(
            events.enumerated().map { ControlRecording.Entry(attempt: 1 + $0 / 8, time: $0 * 10, event: $1) })
        #expect(try ControlRecording(parsing: [UInt8](try recording.encoded().utf8)) == recording)
    }

    @Test func emptyLinesAndUnknownFieldsAreNoErrors() throws {
        let recording = try Self.parse("", #"{"attempt":1,"ms":0,"event":"opened","later":[1]}"#, "\r")
        #expect(recording.entries == [.init(attempt: 1, time: 0, event: .opened)])
    }

    // No interpolation in the macro's arguments: Swift 6.0 crashes there.
    private static let badLines = [
        "nonsense", "[]", "{}", #"{"attempt":1,"ms":0}"#, #"{"attempt":1,"ms":0,"event":"other"}"#,
        #"{"attempt":0,"ms":0,"event":"left"}"#, #"{"attempt":1,"ms":-1,"event":"left"}"#,
        #"{"attempt":1,"ms":99999999999999999999,"event":"left"}"#, #"{"attempt":1,"ms":0.5,"event":"left"}"#,
        #"{"attempt":1,"ms":0,"event":"sent"}"#, #"{"attempt":1,"ms":0,"event":"received"}"#,
        #"{"attempt":1,"ms":0,"event":"received","message":{"type":"queue_position"}}"#,
        #"{"attempt":1,"ms":0,"event":"received","message":7}"#,
        #"{"attempt":1,"ms":0,"event":"closed","code":70000}"#, #"{"attempt":1,"ms":0,"event":"closed","code":7}"#,
        #"{"attempt":1,"ms":0,"event":"failed","status":7}"#, String(repeating: "[", count: 100_000),
        #"{"attempt":1,"ms":0,"event":"closed","code":1000,"reason":"\#(String(repeating: "x", count: 124))"}"#,
    ]

    @Test(arguments: badLines)
    func badLineIsNamed(line: String) {
        let error = thrown(ControlRecordingError.self) { try Self.parse(line) }
        #expect(error?.line == 2)
    }

    @Test(arguments: ["", "\n\n", "{}", #"{"report":"decart-check","format":1}"#, header])
    func otherFilesAreRefused(text: String) {
        #expect(throws: ControlRecordingError.self) { try ControlRecording(parsing: [UInt8](text.utf8)) }
    }

    @Test func laterFormatIsNamed() {
        let text = [UInt8](#"{"recording":"decart-control","format":2}"#.utf8)
        #expect(throws: ControlRecordingError(line: 1, reason: "the format is 2, and this version reads 1")) {
            try ControlRecording(parsing: text)
        }
    }

    @Test func promptNames() {
        #expect(PromptName.number(PromptName.name(3)) == 3)
        for name in [PromptName.other, "prompt-0", "prompt--1", "prompt-", "prompt-99999999999999999999", ""] {
            #expect(PromptName.number(name) == nil)
        }
    }
}
