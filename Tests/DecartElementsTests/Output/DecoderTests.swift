import CGStreamer
import GStreamerKit
import RTP
import StandInServer
import Synchronization
import TestSupport
import Testing
import WebRTCTransport

/// A decoder that never decodes: it fails to start, as without its device, or at its first frame.
final class BrokenDecoder: ElementImplementation {
    private let handle: ElementHandle
    private let failsToStart: Bool

    static func register(_ name: String, failsToStart: Bool) -> Bool {
        if GStreamerRuntime.hasElement(name) { return true }
        let coded = "video/x-h264; video/x-vp8; video/x-vp9"
        let elementClass = ElementClass(
            typeName: "GstTest_\(name)", parent: .bin, longName: "Broken decoder",
            classification: "Codec/Decoder/Video", summary: "For tests", author: "Tests",
            pads: [
                PadTemplate(name: "sink", direction: .sink, presence: .always, caps: coded),
                PadTemplate(name: "src", direction: .source, presence: .always, caps: "video/x-raw"),
            ]
        ) { BrokenDecoder($0, failsToStart: failsToStart) }
        return RegisteredElementClass(elementClass).addFactory(name, to: nil)
    }

    private init(_ handle: ElementHandle, failsToStart: Bool) {
        (self.handle, self.failsToStart) = (handle, failsToStart)
        // Two elements, because one alone would offer downstream the caps of the encoded stream.
        guard let entry = try? Element(factory: "fakesink"), let exit = try? Element(factory: "capsfilter"),
            let caps = try? Caps("video/x-raw"), let sink = handle.makeGhostPad(template: "sink"),
            let source = handle.makeGhostPad(template: "src")
        else { return }
        entry.set("async", false)
        exit.set("caps", caps: caps)
        let bin = handle.unowned
        bin.suppressSourceAndSinkFlags()
        bin.add([entry, exit])
        sink.setTarget(entry.staticPad("sink"))
        source.setTarget(exit.staticPad("src"))
        bin.add(sink)
        bin.add(source)
        let hasFailed = Mutex(false)
        sink.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): return event.caps == nil ? .pass : .drop
            case .query: return .pass
            case .buffer:
                let isFirst = hasFailed.withLock { failed in
                    defer { failed = true }
                    return !failed
                }
                if isFirst { handle.unowned.postError(ElementProblem(.streamDecode, "The device is gone.")) }
                return .drop
            }
        }
    }

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        change == .nullToReady && failsToStart ? .failure : chainUp()
    }
}

extension ElementTests {
    /// The choice of the decoder, by rank.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct DecoderTests {
        /// Sets the rank that GST_PLUGIN_FEATURE_RANK would set.
        private func withRank<R>(_ rank: UInt32, _ name: String, _ body: () throws -> R) throws -> R {
            let factory = try #require(gst_element_factory_find(name))
            defer { gst_object_unref(UnsafeMutableRawPointer(factory)) }
            let before = gst_plugin_feature_get_rank(factory)
            gst_plugin_feature_set_rank(factory, rank)
            defer { gst_plugin_feature_set_rank(factory, before) }
            return try body()
        }

        private var second: String { MediaWay.current.isRoom ? "openh264dec" : "avdec_vp8" }

        /// A session that shows frames; returns the name of its decoder.
        private func run() throws -> String? {
            var name: String?
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3), "no frame came back")
                name = pipeline.stats?.string("decoder")
                #expect(pipeline.takeProblems().isEmpty)
                #expect(standIn.sessions.count == 1)
            }
            return name
        }

        @Test func theRankDecides() throws {
            try #require(ElementTests.isReady)
            for codec in VideoCodec.allCases {
                #expect(codec.decoderChoices.first?.factory == codec.decoders.first)
            }
            let name = second
            #expect(try withRank(1000, name) { try run() } == name)
            let first = MediaWay.current.decoder
            #expect(try withRank(0, first) { try run() } != first)
        }

        private func withoutDecoders<R>(_ names: ArraySlice<String>, _ body: () throws -> R) throws -> R {
            guard let name = names.first else { return try body() }
            return try withRank(0, name) { try withoutDecoders(names.dropFirst(), body) }
        }

        /// The codec that the service is asked for, and the decoder of what it sends.
        private func received(_ properties: String, downstream: String = "") throws -> [String?] {
            var received: [String?] = []
            try TransformPipeline.run(with: {
                try .init($0, properties, prompt: "film noir", downstream: downstream)
            }) { pipeline, standIn in
                let rendered = pipeline.countRendered()
                pipeline.play()
                #expect(rendered.wait { $0 >= 3 }, "no frame came back")
                received = [standIn.sessions.first?.request.serverCodec, pipeline.stats?.string("decoder")]
            }
            return received
        }

        /// The service sends H.264 unless the URL names another codec (DecartAI/sdk, `prepare-connection.ts`).
        @Test(.enabled(if: MediaWay.current.isRoom, "only rooms have it")) func theServiceSendsWhatIsDecodedHere()
            throws
        {
            try #require(ElementTests.isReady)
            #expect(try received("") == [nil, "avdec_h264"])
            #expect(try received("codec=vp8") == ["vp8", "vp8dec"])
            #expect(try received("codec=vp9") == ["vp9", "vp9dec"])
            #expect(try received("", downstream: "capsfilter caps=video/x-vp8") == ["vp8", nil])
            let withoutH264 = VideoCodec.h264.decoderChoices.map(\.factory)[...]
            #expect(try withoutDecoders(withoutH264) { try received("") } == ["vp8", "vp8dec"])
        }

        @Test(arguments: [true, false]) func aDecoderThatFailsGivesWay(failsToStart: Bool) throws {
            try #require(ElementTests.isReady)
            let name = failsToStart ? "nodevicedec" : "lostdevicedec"
            // The choices are remembered until another element is installed.
            #expect(VideoCodec.vp8.isDecodable)
            try #require(BrokenDecoder.register(name, failsToStart: failsToStart))
            #expect(try withRank(1000, name) { VideoCodec.vp8.decoderChoices.first?.factory } == name)
            #expect(try withRank(1000, name) { try run() } == MediaWay.current.decoder)
        }
    }
}
