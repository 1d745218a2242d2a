import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct ImageTests {
        private static func makeImage(_ folder: TemporaryFolder, _ name: String, encoder: String, pattern: String)
            throws -> String
        {
            try #require(ElementTests.isReady)
            let path = folder.path(name)
            let pipeline = try Pipeline(
                description:
                    "videotestsrc num-buffers=1 pattern=\(pattern) ! video/x-raw,width=32,height=32 ! videoconvert ! \(encoder) ! filesink location=\(path)"
            )
            defer { pipeline.setState(.null) }
            pipeline.setState(.playing)
            var isWritten = false
            while !isWritten, let message = pipeline.bus.next(timeout: .seconds(10)) {
                isWritten = message.kind == .eos
            }
            #expect(isWritten)
            return path
        }

        private func tint(_ path: String) throws -> Look {
            let bytes = try readFile(path)
            return Look(prompt: nil, imageHash: StableHash.fnv1a(bytes))
        }

        @Test func anImageTints() throws {
            let raw = try Reference.input()
            try TemporaryFolder.with { folder in
                let first = try Self.makeImage(folder, "first", encoder: "pngenc", pattern: "red")
                let second = try Self.makeImage(folder, "second", encoder: "jpegenc", pattern: "ball")
                let (withFirst, withSecond) = (raw.applying(try tint(first)), raw.applying(try tint(second)))
                try TransformPipeline.runWell(with: { try .init($0, "reference-image=\(first)", forbidden: raw) }) {
                    pipeline, standIn in
                    pipeline.play()
                    #expect(pipeline.waitForFrame(withFirst))
                    #expect(standIn.sessions.first?.imageCount == 1)
                    pipeline.transform.set("reference-image", GValueBox(second))
                    #expect(pipeline.waitForFrame(withSecond))
                    #expect(pipeline.current.leaks == 0)
                    pipeline.forbid(nil)
                    pipeline.transform.set("reference-image", GValueBox(String?.none))
                    #expect(pipeline.waitForFrame(raw, within: 4))
                    #expect(pipeline.takeProblems().isEmpty)
                }
            }
        }

        /// A `data:` URL is sent as its file would be, and shown without its data; an uploaded file is sent as its ID.
        @Test func dataURLsAndUploadedFiles() throws {
            let raw = try Reference.input()
            try TemporaryFolder.with { folder in
                let path = try Self.makeImage(folder, "image.png", encoder: "pngenc", pattern: "red")
                let url = "data:image/png;base64," + Base64.encode(try readFile(path))
                let uploaded = Look(prompt: nil, imageHash: StableHash.fnv1a("file_abc-1".utf8))
                try TransformPipeline.run(with: { try .init($0, forbidden: raw) }) { pipeline, standIn in
                    pipeline.transform.set("reference-image", GValueBox(url))
                    #expect(pipeline.transform.string("reference-image") == "data:image/png;base64,…")
                    pipeline.play()
                    #expect(pipeline.waitForFrame(raw.applying(try tint(path))))
                    pipeline.transform.set("reference-image", GValueBox("file_abc-1"))
                    #expect(pipeline.transform.string("reference-image") == "file_abc-1")
                    #expect(pipeline.waitForFrame(raw.applying(uploaded)))
                    pipeline.transform.set("reference-image", GValueBox("data:image/png;base64,AAAA"))
                    let warning = try #require(pipeline.waitForProblem(.warning))
                    #expect(warning.text.contains("still JPEG"))
                    #expect(pipeline.current.leaks == 0 && standIn.sessions.first?.imageCount == 2)
                }
            }
        }

        @Test func imageAndPromptSetTogetherAreOneMessage() throws {
            let raw = try Reference.input()
            try TemporaryFolder.with { folder in
                let path = try Self.makeImage(folder, "image.png", encoder: "pngenc", pattern: "red")
                let look = Look(prompt: "film noir", imageHash: StableHash.fnv1a(try readFile(path)))
                try TransformPipeline.run(with: { try .init($0, prompt: "anime") }) { pipeline, standIn in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                    pipeline.transform.withFrozenNotifications {
                        $0.set("reference-image", path)
                        $0.set("prompt", "film noir")
                    }
                    #expect(pipeline.waitForFrame(raw.applying(look)))
                    #expect(standIn.sessions.first?.prompts == ["anime", "film noir"])
                    #expect(standIn.sessions.first?.imageCount == 1)
                }
            }
        }

        @Test func whatIsNoImageIsNotSent() throws {
            try TemporaryFolder.with { folder in
                let path = try folder.write("text.png", Array("this is text\n".utf8))
                try StandIn.run { standIn in
                    // An invalid image is an error at the start, because the requested result is impossible.
                    try TransformPipeline.run(try .init(standIn, "reference-image=\(path)")) { pipeline in
                        #expect(pipeline.play() == .failure)
                        let error = try #require(pipeline.waitForError())
                        #expect(error.text.contains("reference image") && error.text.contains("'\(path)'"))
                        #expect(error.details?.string("code") == "INVALID_INPUT")
                        #expect(error.name == FailureTests.settings)
                    }
                    #expect(standIn.sessions.isEmpty)
                    // Later it is a warning, and the current prompt stays.
                    try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1))
                        pipeline.transform.set("reference-image", GValueBox(path))
                        let warning = try #require(pipeline.waitForProblem(.warning))
                        #expect(warning.text.contains("reference image"))
                        #expect(pipeline.waitForFrames(3))
                        #expect(standIn.sessions.first?.imageCount == 0)
                    }
                }
            }
        }

        /// `set-prompt` and `set-image` act as their properties do: one request, one `notify`, and they hold for the
        /// next start.
        @Test(arguments: ["decarttransform", "decartsrc"]) func actionSignalsHoldForTheNextStart(element: String) throws
        {
            let raw = try Reference.input()
            try TemporaryFolder.with { folder in
                let bytes = try readFile(try Self.makeImage(folder, "image.png", encoder: "pngenc", pattern: "red"))
                let look = Look(prompt: "film noir", imageHash: StableHash.fnv1a(bytes))
                try TransformPipeline.runWell(with: {
                    try element == "decartsrc"
                        ? .camera($0, CameraTests.still, prompt: "anime") : .init($0, prompt: "anime")
                }) { pipeline, standIn in
                    let notified = Watched<[String]>([])
                    for name in ["prompt", "enrich", "reference-image"] {
                        pipeline.transform.connect("notify::\(name)") { _ in
                            notified.change { $0.append(name) }
                            return nil
                        }
                    }
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                    let id = pipeline.transform.emit(
                        "set-image", [GValueBox(bytes: bytes), GValueBox(String?.none), GValueBox(false)])?.int
                    #expect(notified.value == ["reference-image"])
                    #expect(
                        pipeline.transform.emit("set-prompt", [GValueBox("film noir"), GValueBox(true)])?.int != 0)
                    #expect(notified.value.sorted() == ["enrich", "prompt", "reference-image"])
                    let result = pipeline.waitForMessage {
                        $0.structure?.name == "decart-prompt-result" && $0.structure?.int("id") == id
                    }
                    #expect(id != 0 && result?.structure?["accepted"]?.bool == true)
                    #expect(pipeline.waitForFrame(raw.applying(look)))
                    #expect(
                        pipeline.transform.string("prompt") == "film noir"
                            && pipeline.transform.bool("enrich") == true)
                    #expect(pipeline.transform.string("reference-image") == nil)

                    pipeline.pipeline.setState(.ready)
                    pipeline.play()
                    #expect(
                        standIn.wait { $0.count == 2 && $0[1].imageCount == 1 && $0[1].prompts == ["film noir"] })
                    #expect(standIn.sessions.first?.imageCount == 1)
                    #expect(standIn.sessions.first?.prompts == ["anime", "film noir"])
                    #expect(pipeline.waitForFrame(raw.applying(look)))

                    // Without a session too, and a property replaces what a signal has set.
                    pipeline.pipeline.setState(.ready)
                    #expect(
                        pipeline.transform.emit(
                            "set-image", [GValueBox(bytes: []), GValueBox("lego"), GValueBox(false)])?.int == 0)
                    pipeline.transform.set("prompt", GValueBox("anime"))
                    pipeline.play()
                    #expect(pipeline.waitForFrame(raw.applying(prompt: "anime")))
                    #expect(standIn.sessions.last?.prompts == ["anime"] && standIn.sessions.last?.imageCount == 0)
                    #expect(pipeline.takeProblems().isEmpty)
                }
            }
        }

        /// The SDKs disagree whether the default model takes images (Swift 0.6.6, decart-python 07280d5).
        @Test func aDoubtfulImageIsSentWithOneWarning() throws {
            let raw = try Reference.input()
            try TemporaryFolder.with { folder in
                let path = try Self.makeImage(folder, "image.png", encoder: "pngenc", pattern: "red")
                let next = try Self.makeImage(folder, "next.png", encoder: "pngenc", pattern: "ball")
                try TransformPipeline.run(with: { try .init($0, "model=lucy-restyle-2 reference-image=\(path)") }) {
                    pipeline, standIn in
                    pipeline.play()
                    let warning = try #require(pipeline.waitForProblem(.warning))
                    #expect(warning.text.contains("lucy-restyle-2"))
                    #expect(warning.details?.string("code") == "INVALID_OPTIONS")
                    #expect(pipeline.waitForFrame(raw.applying(try tint(path))))
                    pipeline.transform.set("reference-image", GValueBox(next))
                    #expect(pipeline.waitForFrame(raw.applying(try tint(next))))
                    #expect(standIn.sessions.first?.imageCount == 2)
                    #expect(pipeline.takeProblems().count == 1)
                }
            }
        }
    }
}
