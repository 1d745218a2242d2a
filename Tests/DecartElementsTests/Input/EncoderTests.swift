import CGStreamer
import GStreamerKit
import TestSupport
import Testing
import WebRTCTransport

/// An encoder without a property for its bitrate, which fails when it is stopped, as one on a device may.
private final class ClosedEncoder: ElementImplementation {
    static let isRegistered = RegisteredElementClass(
        ElementClass(
            typeName: "GstTestClosedEncoder", parent: .bin, longName: "Closed encoder",
            classification: "Codec/Encoder/Video", summary: "For tests", author: "Tests",
            pads: [
                PadTemplate(name: "sink", direction: .sink, presence: .always, caps: "video/x-raw, format=I420"),
                PadTemplate(name: "src", direction: .source, presence: .always, caps: "video/x-vp8"),
            ], make: { ClosedEncoder($0) })
    ).addFactory("closedvp8enc", to: nil)

    private let handle: ElementHandle

    private init(_ handle: ElementHandle) {
        self.handle = handle
        guard let encoder = try? Element(factory: "vp8enc"), let sink = handle.makeGhostPad(template: "sink"),
            let source = handle.makeGhostPad(template: "src")
        else { return }
        encoder.set("deadline", "1")
        let bin = handle.unowned
        bin.suppressSourceAndSinkFlags()
        bin.add([encoder])
        sink.setTarget(encoder.staticPad("sink"))
        source.setTarget(encoder.staticPad("src"))
        bin.add(sink)
        bin.add(source)
    }

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        if change == .pausedToReady {
            handle.unowned.postError(ElementProblem(.resourceFailed, "the device is gone", debug: "made by a test"))
        }
        return chainUp()
    }
}

extension ElementTests {
    /// Encoders other than the default ones, in whole sessions.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct EncoderTests {
        /// The congestion controller's target reaches an encoder of each unit, from the start bitrate to the maximum.
        @Test(arguments: [("vah264enc", 1000), ("v4l2h264enc", 1)])
        func aKnownEncoderFollowsTheTarget(factory: String, unit: Int) throws {
            try #require(ElementTests.isReady)
            let known = try #require(KnownEncoder.named(factory))
            try #require(StandInEncoder.register(known), "this machine has a real \(factory)")
            StandInEncoder.forgetValues(of: factory)
            let properties = "encoder=\(factory) max-bitrate=1800000"
            // Noise, because an encoder that stays far below its bitrate tells nothing about the network.
            let source =
                "videotestsrc pattern=snow is-live=true ! "
                + "video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1"
            try TransformPipeline.run(with: { try .init($0, properties, prompt: "film noir", source: source) }) {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3), "no frame came back")
                #expect(pipeline.stats?.string("encoder") == factory)
                let follows = eventually {
                    let values = StandInEncoder.values(of: factory)
                    guard Set(values).count > 1, let last = values.last else { return false }
                    let target = pipeline.count("target-bitrate")
                    return abs(last * unit - target) <= target / 10
                }
                let values = StandInEncoder.values(of: factory)
                #expect(follows, "\(values), target \(pipeline.count("target-bitrate"))")
                // The element sets the start bitrate first; the table's other controls may come before it.
                #expect(values.first == 600_000 / unit, "\(values)")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// A subclass of vp8enc under another factory name: the element does not know the name of its bitrate property.
        private static let foreignEncoder: String? = {
            let name = "foreignvp8enc"
            guard ElementTests.isReady, let known = gst_element_factory_find("vp8enc") else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(known)) }
            guard let loaded = gst_plugin_feature_load(known) else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(loaded)) }
            let parent = gst_element_factory_get_element_type(loaded)
            var query = GTypeQuery()
            g_type_query(parent, &query)
            let type = g_type_register_static_simple(
                parent, "ForeignVP8Enc", query.class_size, nil, query.instance_size, nil, GTypeFlags(rawValue: 0))
            return gst_element_register(nil, name, 0, type) != 0 ? name : nil
        }()

        /// An encoder whose bitrate cannot be set is reported by one warning per run, however many sessions there are. Its
        /// failure while the session ends is no error of the pipeline.
        @Test func anUnknownEncoderIsReportedOnce() throws {
            try #require(ElementTests.isReady && ClosedEncoder.isRegistered)
            let encoder = "closedvp8enc"
            try TransformPipeline.run(with: { try .init($0, "codec=vp8 encoder=\(encoder)") }) { pipeline, standIn in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning), "no warning")
                for word in [encoder, "encoder-setup", "target-bitrate"] {
                    #expect(warning.text.contains(word), "\(word): \(warning.text)")
                }
                #expect(pipeline.waitForFrames(3), "no frame came back")
                pipeline.transform.emit("disconnect")
                #expect(eventually { pipeline.connectionState == "disconnected" }, "it is still connected")
                pipeline.transform.emit("connect")
                #expect(standIn.wait { $0.count == 2 }, "no second session")
                #expect(pipeline.waitForFrames(3), "no frame came back after the second connect")
                #expect(pipeline.takeProblems().count == 1)
            }
        }

        @Test func anUnknownEncoderFollowsByTheNameOfItsProperty() throws {
            let encoder = try #require(Self.foreignEncoder)
            let properties = "codec=vp8 encoder=\(encoder) max-bitrate=1200000"
            try TransformPipeline.run(with: { try .init($0, properties) }) { pipeline, _ in
                let made = Watched<Element?>(nil)
                pipeline.transform.connect("encoder-setup") { arguments in
                    made.change { $0 = arguments.first?.element }
                    return nil
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(3), "no frame came back")
                // The first target; whether the network carries more, an input that needs less does not show.
                #expect(eventually { (made.value?.int("target-bitrate") ?? 0) >= 600_000 })
                #expect(pipeline.takeProblems().isEmpty)
                made.change { $0 = nil }
            }
        }
    }
}
