import GStreamerKit
import Testing
import WebRTCTransport

/// Moves frames between the system's memory and a memory that this machine lacks, by the caps alone: a stand-in for
/// `cudaupload` and `cudadownload`.
final class MemoryMover: ElementImplementation {
    private let handle: ElementHandle

    /// Registers both factories; false if the machine has the real ones.
    static let isRegistered: Bool = {
        GStreamerRuntime.initialise()
        guard !GStreamerRuntime.hasElement("cudadownload"), !GStreamerRuntime.hasElement("cudaupload") else {
            return false
        }
        return add("cudadownload", from: there, to: here) && add("cudaupload", from: here, to: there)
    }()
    /// Puts frames into a memory that nothing on this machine fetches them from.
    static let isJetsonRegistered: Bool = {
        GStreamerRuntime.initialise()
        return !GStreamerRuntime.hasElement("nvvidconv") && !GStreamerRuntime.hasElement("nvvideoconvert")
            && add("nvmmupload", from: here, to: "video/x-raw(memory:NVMM)")
    }()
    private static let here = "video/x-raw"
    private static let there = "video/x-raw(memory:CUDAMemory)"

    private static func add(_ name: String, from sink: String, to source: String) -> Bool {
        let elementClass = ElementClass(
            typeName: "GstTest_\(name)", parent: .element, longName: name, classification: "Filter/Video",
            summary: "For tests", author: "Tests",
            pads: [
                PadTemplate(name: "sink", direction: .sink, presence: .always, caps: sink),
                PadTemplate(name: "src", direction: .source, presence: .always, caps: source),
            ]
        ) { MemoryMover($0, sink, source) }
        return RegisteredElementClass(elementClass).addFactory(name, to: nil)
    }

    private init(_ handle: ElementHandle, _ sinkCaps: String, _ sourceCaps: String) {
        self.handle = handle
        guard let sink = handle.makePad(template: "sink"), let source = handle.makePad(template: "src") else { return }
        sink.setChainFunction { [source] in source.push($0) }
        sink.setEventFunction { [source] event in
            guard let caps = event.caps else { return .forward }
            let text = caps.description.replacing("video/x-raw(memory:CUDAMemory)", with: "video/x-raw")
            let moved = text.replacing("video/x-raw", with: sourceCaps)
            return .handled((try? Caps(moved)).map { source.push(Event.caps($0)) } ?? false)
        }
        sink.setQueryFunction { query in
            switch query.kind {
            case .caps:
                guard let caps = try? Caps(sinkCaps) else { return .refused }
                query.answerCaps(caps)
                return .answered
            case .acceptCaps:
                guard let caps = query.offeredCaps, let own = try? Caps(sinkCaps) else { return .refused }
                query.answerAcceptCaps(caps.canIntersect(own))
                return .answered
            case .allocation: return .refused
            default: return .forward
            }
        }
        source.setQueryFunction { query in
            guard query.kind == .caps, let caps = try? Caps(sourceCaps) else { return .forward }
            query.answerCaps(caps)
            return .answered
        }
        handle.unowned.add(sink)
        handle.unowned.add(source)
    }
}

extension ElementTests {
    /// Input in memory other than the system's.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct InputMemoryTests {
        private func fetchers(_ pipeline: TransformPipeline) -> Int {
            pipeline.pipeline.allElements.count { $0.factoryName == "cudadownload" }
        }

        @Test func framesAreFetched() throws {
            try #require(ElementTests.isReady)
            try #require(MemoryMover.isRegistered, "this machine has the real elements")
            try StandIn.run { standIn in
                let source = TransformPipeline.liveSource + " ! cudaupload"
                let pipeline = try TransformPipeline(standIn, prompt: "film noir", source: source)
                // Twice: the elements come and go with the stream.
                for _ in 1...2 {
                    #expect(fetchers(pipeline) == 0)
                    pipeline.play()
                    #expect(pipeline.waitForFrames(3), "no frame came back")
                    #expect(fetchers(pipeline) == 1)
                    pipeline.pipeline.setState(.null)
                }
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Frames in the system's memory are taken as they are, although upstream could put them elsewhere.
        @Test func theSystemsMemoryNeedsNoElement() throws {
            try #require(ElementTests.isReady)
            try #require(MemoryMover.isRegistered, "this machine has the real elements")
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                let sink = try #require(pipeline.transform.staticPad("sink"))
                let structures = sink.queryCaps()
                #expect(structures.memory == nil)
                #expect(structures.canIntersect(try Caps("video/x-raw(memory:CUDAMemory), format=I420")))
                #expect(sink.accepts(try Caps("video/x-raw(memory:CUDAMemory), format=I420, width=16, height=16")))
                #expect(!sink.accepts(try Caps("video/x-raw(memory:Nonesuch), format=I420, width=16, height=16")))
                #expect(!sink.accepts(try Caps("audio/x-raw")))
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                #expect(fetchers(pipeline) == 0)
            }
        }

        @Test func theMissingPackageIsNamed() throws {
            try #require(ElementTests.isReady)
            try #require(MemoryMover.isJetsonRegistered, "this machine has the real elements")
            try StandIn.run { standIn in
                let source = TransformPipeline.liveSource + " ! nvmmupload"
                let pipeline = try TransformPipeline(standIn, source: source)
                defer { pipeline.pipeline.setState(.null) }
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                for word in ["memory:NVMM", "nvvidconv or nvvideoconvert", "install"] {
                    #expect(error.text.contains(word), "\(word): \(error.text)")
                }
                #expect(error.name == "core 12")
            }
        }

        @Test func theTableHasEachFeatureOnce() {
            let features = VideoMemory.all.map(\.feature)
            #expect(Set(features).count == features.count)
            #expect(VideoMemory.named("memory:GLMemory")?.fetchers == [["gldownload"]])
            #expect(VideoMemory.named("memory:SystemMemory") == nil && VideoMemory.named(nil) == nil)
            let dma = VideoMemory.named("memory:DMABuf")?.fetchers ?? []
            #expect(
                VideoMemory.installed(dma) { ["glupload", "gldownload"].contains($0) } == ["glupload", "gldownload"])
            #expect(VideoMemory.installed(dma) { $0 == "glupload" } == nil)
        }
    }
}
