import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct PromptTests {
        @Test func aLaterRefusalIsAWarningAndTheVideoStays() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir", forbidden: raw) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                pipeline.transform.set("prompt", GValueBox("refuse-me"))
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("refused by moderation"))
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
                #expect(pipeline.current.leaks == 0)
            }
        }

        @Test func withoutASessionAPromptIsStored() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                pipeline.transform.emit("disconnect")
                #expect(eventually { pipeline.connectionState == "disconnected" })
                let id = pipeline.transform.emit("set-prompt", [GValueBox("anime"), GValueBox(false)])?.int
                let result = pipeline.waitForMessage {
                    $0.structure?.name == "decart-prompt-result" && $0.structure?.int("id") == id
                }
                #expect(result?.structure?["accepted"]?.bool == true && result?.structure?["stored"]?.bool == true)
                #expect(result?.structure?.string("error") == nil)
                // No warning of a time without a session names the former one.
                pipeline.transform.set("prompt", GValueBox(String(repeating: "x", count: 100_000)))
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.details?.string("session-id") == nil)
                #expect(pipeline.takeProblems().count == 1)
                pipeline.transform.set("prompt", GValueBox("anime"))
                pipeline.transform.emit("connect")
                #expect(pipeline.waitForFrame(raw.applying(prompt: "anime")))
            }
        }

        /// No SDK limits prompts (Python 0.2.4, types.py, `Prompt`): the service decides.
        @Test func aLongPromptIsSentWithOneWarning() throws {
            let first = "anime " + String(repeating: "x", count: 1000)
            let second = "film noir " + String(repeating: "é", count: 2000)
            let raw = try Reference.input()
            try TransformPipeline.run(with: { try .init($0, prompt: first) }) { pipeline, standIn in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("1006 characters") && warning.text.contains("1000"))
                #expect(warning.details?.string("code") == "INVALID_INPUT")
                #expect(pipeline.waitForFrame(raw.applying(prompt: first)))
                pipeline.transform.set("prompt", GValueBox(second))
                #expect(pipeline.waitForFrame(raw.applying(prompt: second)))
                #expect(standIn.sessions.first?.prompts == [first, second])
                #expect(pipeline.takeProblems().count == 1)
            }
        }

        @Test func aPromptAbove64KiBIsRefusedAndTheSessionGoesOn() throws {
            let long = String(repeating: "x", count: (64 << 10) + 1)
            let raw = try Reference.input()
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                    pipeline.transform.set("prompt", GValueBox(long))
                    let warning = try #require(pipeline.waitForProblem(.warning))
                    #expect(warning.text.contains("65537 bytes"))
                    #expect(pipeline.transform.emit("set-prompt", [GValueBox(long), GValueBox(false)])?.int == 0)
                    #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                    pipeline.transform.set("prompt", GValueBox("anime"))
                    #expect(pipeline.waitForFrame(raw.applying(prompt: "anime")))
                    #expect(standIn.sessions.first?.prompts == ["film noir", "anime"])
                }
                try TransformPipeline.run(try .init(standIn, prompt: long)) { pipeline in
                    #expect(pipeline.play() == .failure)
                    #expect(pipeline.waitForError()?.text.contains("65537 bytes") == true)
                }
                #expect(standIn.sessions.count == 1)
            }
        }
    }
}
