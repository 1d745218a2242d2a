import CGStreamer
import Dispatch
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `decartsrc` with sources that are not cameras, and the properties and signals that it shares with
    /// decarttransform.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct CameraTests {
        /// The standard test pattern as a value of `source`.
        static let still = "source=\"\(TransformPipeline.liveSource)\""

        @Test(arguments: [("off", false), ("auto", true), ("on", true)])
        func whatComesOutIsTheMirroredAndTransformedFrame(mode: String, isMirrored: Bool) throws {
            let raw = try Reference.input()
            let sent = isMirrored ? raw.mirrored : raw
            #expect(raw.difference(from: raw.mirrored) > 20)
            try TransformPipeline.runWell(with: {
                try .camera($0, "\(Self.still) mirror=\(mode)", prompt: "film noir", preview: true)
            }) { pipeline, _ in
                let preview = FrameWatch(
                    try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
                #expect(pipeline.play() != .failure)
                #expect(pipeline.waitForFrame(sent.applying(prompt: "film noir")))
                #expect(preview.wait(for: sent))
                #expect(pipeline.takeProblems().isEmpty)
                #expect(pipeline.connectionState != nil)
            }
        }

        /// The part inside has the value that the element shows, whichever thread comes last.
        @Test(arguments: [("mirror", "camera-mirror", "mode"), ("orientation", "transform", "orientation")])
        func ofTwoThreadsTheLaterOneHolds(name: String, part: String, inside: String) throws {
            try #require(ElementTests.isReady)
            let (bin, source) = (Bin(name: nil), try Element(factory: "decartsrc"))
            bin.add(source)
            let child = try #require(bin.child(named: part))
            var differences = 0
            for _ in 1...20_000 {
                DispatchQueue.concurrentPerform(iterations: 2) { source.set(name, $0 + 1) }
                if child.int(inside) != source.int(name) { differences += 1 }
            }
            #expect(differences == 0)
        }

        /// The stage in front of the transform maps frames too.
        @Test func framesThatAreSmallerThanTheirCapsAreDropped() throws {
            let short = "fakesrc is-live=true format=time do-timestamp=true sizetype=fixed sizemax=1000"
            let caps = "video/x-raw,format=RGB,\(TransformPipeline.size),framerate=20/1"
            let source = "source=\"\(short) ! identity sleep-time=20000 ! \(caps)\""
            try TransformPipeline.run(with: { try .camera($0, source) }) { pipeline, _ in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("has 1000 bytes, but its caps need 168960"), "\(warning.text)")
                #expect(eventually { pipeline.count("frames-dropped") >= 3 })
                #expect(pipeline.takeProblems().filter { $0.text.contains("1000 bytes") }.count == 1)
            }
        }

        @Test func theMirrorChangesWhilePlaying() throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: { try .camera($0, Self.still, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                for (name, value, isMirrored) in [
                    ("mirror", "auto", true), ("position", "back", false), ("mirror", "on", true),
                    ("mirror", "off", false),
                ] {
                    pipeline.transform.set(name, value)
                    let expected = (isMirrored ? raw.mirrored : raw).applying(prompt: "film noir")
                    #expect(pipeline.waitForFrame(expected), "\(name)=\(value)")
                }
                #expect(standIn.sessions.count == 1)
            }
        }

        @Test func theSourceChangesWhilePlaying() throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: { try .camera($0, Self.still, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                pipeline.transform.set("source", "\(TransformPipeline.liveSource) ! videoflip video-direction=horiz")
                #expect(pipeline.waitForFrame(raw.mirrored.applying(prompt: "film noir")))
                #expect(pipeline.takeProblems().isEmpty)
                // One that cannot be made, or fails before its first frame, leaves the former one in use.
                for broken in ["nosuchelement", "filesrc location=/nosuchfile ! rawvideoparse"] {
                    pipeline.transform.set("source", broken)
                    #expect(pipeline.waitForProblem(.warning) != nil, "\(broken)")
                }
                #expect(pipeline.waitForFrame(raw.mirrored.applying(prompt: "film noir")))
                pipeline.transform.set("source", TransformPipeline.liveSource)
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(standIn.sessions.count == 1)
            }
        }

        @Test func theTestPatternHasTheModelsSize() throws {
            let raw = try Reference.frame("videotestsrc num-buffers=1 ! video/x-raw,width=320,height=176")
            try TransformPipeline.run(with: {
                try .camera($0, "source=test mirror=on", prompt: "film noir", preview: true)
            }) { pipeline, _ in
                let preview = FrameWatch(
                    try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
                pipeline.play()
                // The noise in one corner of the pattern differs in every frame.
                #expect(pipeline.waitForFrame(raw.mirrored.applying(prompt: "film noir"), within: 12))
                #expect(preview.seen.wait { $0.sizes == ["320x176"] })
            }
        }

        /// A source that is not live, such as a file, must play at its own rate, not as fast as it can be read.
        @Test func aSourceThatIsNotLiveIsPaced() throws {
            let source = TransformPipeline.source("is-live=false")
            try TransformPipeline.run(with: {
                try .camera($0, "source=\"\(source)\"", prompt: "film noir", preview: true)
            }) { pipeline, standIn in
                let preview = FrameWatch(
                    try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
                // From the start on, because frames that a busy machine holds up come in a burst afterwards.
                let time = duration {
                    pipeline.play()
                    #expect(preview.waitForFrames(16))
                }
                #expect(time > .milliseconds(700), "16 frames of 50 ms each took \(time)")
                #expect(pipeline.waitForFrames(5))
                // Pacing also holds after the capture was stopped and started again.
                pipeline.transform.emit("stop-capture")
                _ = pipeline.collect(milliseconds: 1000)
                let again = duration {
                    pipeline.transform.emit("start-capture")
                    #expect(preview.waitForFrames(18))
                }
                #expect(again > .milliseconds(700), "18 frames of 50 ms each took \(again)")
                #expect(preview.hasRisingStamps)
                #expect(pipeline.waitForFrames(5))
                #expect(standIn.sessions.count == 1)
            }
        }

        /// Such a source begins at its own time zero again; the stream goes on.
        @Test func timesRiseOverAChangeOfTheSource() throws {
            let source = TransformPipeline.source("is-live=false")
            try TransformPipeline.run(with: {
                try .camera($0, "source=\"\(source)\"", prompt: "film noir", preview: true)
            }) { pipeline, _ in
                let preview = FrameWatch(
                    try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
                pipeline.play()
                #expect(preview.waitForFrames(3))
                pipeline.transform.emit("stop-capture")
                pipeline.transform.emit("start-capture")
                #expect(preview.waitForFrames(3))
                let flipped = "\(source) ! videoflip video-direction=horiz"
                let mirrored = try Reference.input().mirrored
                pipeline.transform.set("source", flipped)
                #expect(preview.wait(for: mirrored))
                #expect(preview.waitForFrames(3))
                #expect(preview.hasRisingStamps)
            }
        }

        /// Demultiplexers and decodebin add their pads once they have seen the stream.
        @Test(arguments: [
            "matroskademux", "matroskademux ! video/x-raw", "decodebin", "decodebin ! videoconvert",
        ])
        func padsOfASourceMayComeLater(end: String) throws {
            let raw = try Reference.input()
            let source = "\(TransformPipeline.liveSource) ! matroskamux streamable=true ! \(end)"
            try TransformPipeline.run(with: { try .camera($0, "source=\"\(source)\" mirror=off", prompt: "film noir") })
            { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        // MARK: Proxied properties and signals

        private func properties(_ factory: String) throws -> [String: (type: UInt, flags: UInt32)] {
            let element = try Element(factory: factory)
            var count: UInt32 = 0
            let list = element.raw.assumingMemoryBound(to: GTypeInstance.self).pointee.g_class?
                .withMemoryRebound(to: GObjectClass.self, capacity: 1) { g_object_class_list_properties($0, &count) }
            defer { g_free(list) }
            return Dictionary(
                uniqueKeysWithValues: (0..<Int(count)).compactMap { index in
                    list?[index].map {
                        (
                            String(cString: $0.pointee.name),
                            (UInt($0.pointee.value_type), UInt32($0.pointee.flags.rawValue))
                        )
                    }
                })
        }

        @Test func itHasEveryPropertyOfTheTransform() throws {
            try #require(ElementTests.isReady)
            let (own, carried) = (try properties("decartsrc"), try properties("decarttransform"))
            #expect(carried.count > 40)
            for (name, property) in carried {
                let found = try #require(own[name], "decartsrc has no \(name)")
                // `subscribe-token` is also writable here, up to READY (1 << 10): decartsrc can watch another session.
                let flags =
                    property.flags | (name == "subscribe-token" ? UInt32(G_PARAM_WRITABLE.rawValue) | 1 << 10 : 0)
                #expect(found.type == property.type && found.flags == flags, "\(name)")
            }
            let source = try Element(factory: "decartsrc")
            let transform = try Element(factory: "decarttransform")
            for (name, property) in carried where !["name", "parent", "stats", "orientation"].contains(name) {
                let isReadable = property.flags & UInt32(G_PARAM_READABLE.rawValue) != 0
                #expect((source.value(name) != nil) == isReadable)
                #expect(source.string(name) == transform.string(name), "the default of \(name)")
            }
        }

        @Test func itHasEverySignalOfTheTransform() throws {
            try #require(ElementTests.isReady)
            _ = (try Element(factory: "decartsrc"), try Element(factory: "decarttransform"))
            func signals(_ type: String) -> [String: GSignalQuery] {
                var count: UInt32 = 0
                let ids = g_signal_list_ids(g_type_from_name(type), &count)
                defer { g_free(ids) }
                return Dictionary(
                    uniqueKeysWithValues: (0..<Int(count)).compactMap { index -> (String, GSignalQuery)? in
                        var query = GSignalQuery()
                        guard let id = ids?[index] else { return nil }
                        g_signal_query(id, &query)
                        return (String(cString: query.signal_name), query)
                    })
            }
            let (own, carried) = (signals("GstDecartSrc"), signals("GstDecartTransform"))
            #expect(carried.count >= 7)
            for (name, signal) in carried {
                let found = try #require(own[name], "decartsrc has no \(name)")
                #expect(found.n_params == signal.n_params && found.return_type == signal.return_type)
                #expect(found.signal_flags == signal.signal_flags)
            }
        }

        @Test func propertiesAreTheChilds() throws {
            try #require(ElementTests.isReady)
            let pipeline = try Pipeline(description: "decartsrc name=it model=lucy-2.5 api-key=secret ! fakesink")
            let source = try #require(pipeline.child(named: "it"))
            let transform = try #require(pipeline.child(named: "transform"))
            #expect(transform.string("model") == "lucy-2.5" && source.string("model") == "lucy-2.5")
            source.set("turn-servers", GValueBox(strings: ["turn://user:secret@relay.example.com"]))
            #expect(source.value("turn-servers")?.strings == ["turn://redacted@relay.example.com"])
            #expect(source.hasProperty("api-key") && source.value("api-key") == nil)
            let headers = Structure("headers")
            headers["Authorization"] = GValueBox("Bearer secret")
            source.set("api-key-headers", structure: headers)
            #expect(source.value("api-key-headers") == nil)
            let dot = pipeline.dotDescription()
            #expect(!dot.contains("secret") && dot.contains("camera-mirror"))
        }

        @Test func severalPropertiesAreOneUpdate() throws {
            try TransformPipeline.run(with: { try .camera($0, Self.still, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let before = standIn.sessions.first?.promptCount ?? 0
                pipeline.transform.withFrozenNotifications {
                    $0.set("prompt", "anime")
                    $0.set("enrich", true)
                }
                #expect(standIn.wait { $0.first?.prompts.last == "anime" })
                pipeline.transform.set("prompt", "lego")
                #expect(standIn.wait { $0.first?.prompts.last == "lego" })
                #expect(standIn.sessions.first?.promptCount == before + 2)
            }
        }

        @Test func signalsGoBothWays() throws {
            let raw = try Reference.input()
            let (results, reported) = (Watched<[UInt64]>([]), Watched<[String]>([]))
            try TransformPipeline.run(with: {
                try TransformPipeline(
                    description: """
                        decartsrc name=t \(TransformPipeline.bare) base-url=\($0.url) \(TransformPipeline.custom) \
                        \(Self.still) ! fakesink name=out sync=false
                        """)
            }) { pipeline, standIn in
                let source = pipeline.transform
                // Nothing handles `request-api-key` yet, so there is no key.
                #expect(pipeline.play() == .failure)
                #expect(pipeline.waitForError()?.name == "resource 15")
                pipeline.pipeline.setState(.null)
                source.connect("request-api-key") { _ in GValueBox(TransformPipeline.key) }
                source.connect("encoder-setup") { arguments in
                    reported.change { $0.append(arguments.first?.element?.factoryName ?? "none") }
                    return nil
                }
                source.connect("prompt-result") { arguments in
                    results.change { $0.append(UInt64(arguments.first?.int ?? 0)) }
                    return nil
                }
                let states = Watched<[String]>([])
                source.connect("notify::connection-state") { [unowned source] _ in
                    states.change { $0.append(source.string("connection-state") ?? "") }
                    return nil
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let id = source.emit("set-prompt", [GValueBox("anime"), GValueBox(false)])?.int
                #expect(results.wait { $0.contains(UInt64(id ?? -1)) })
                #expect(pipeline.waitForFrame(raw.applying(prompt: "anime")))
                #expect(
                    reported.value.count == 1 && reported.value.first?.hasSuffix("enc") == true, "\(reported.value)"
                )
                #expect(
                    states.wait {
                        $0.contains("generating") || $0.contains("Generating") || $0.count >= 2
                    })
                #expect(source.int("stats") == nil)
                #expect(eventually { (source.structure("stats")?.int("frames-sent") ?? 0) > 0 })
                source.emit("disconnect")
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } })
                source.emit("connect")
                #expect(standIn.wait { $0.filter(\.isOpen).count == 1 })
            }
        }

        // MARK: Lifecycle

        @Test func itIsALiveSource() throws {
            try #require(ElementTests.isReady)
            let source = try Element(factory: "decartsrc")
            for (name, value) in [("source", "test"), ("auto-connect", "false"), ("api-key", "x")] {
                source.set(name, value)
            }
            for state in [ElementState.paused, .playing, .paused] {
                #expect(source.setState(state) == (state == .playing ? .success : .noPreroll))
            }
            #expect(source.setState(.null) == .success)
        }

        /// The pipeline would lose it with the source.
        @Test func aSourceGivesNoClock() throws {
            try TransformPipeline.run(with: { try .camera($0, Self.still) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let element = pipeline.transform.raw.assumingMemoryBound(to: GstElement.self)
                #expect(gst_element_provide_clock(element) == nil)
            }
        }

        @Test func anEndIsSentThrough() throws {
            try TransformPipeline.run(with: { try .camera($0, Self.still, prompt: "film noir", preview: true) }) {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                #expect(pipeline.pipeline.send(Event.eos()))
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test(arguments: [
            ("source=\"no-such-element\"", "resource 13", "no-such-element"),
            ("source=\"fakesink\"", "resource 13", "link"),
            ("device=/dev/nothing", "resource 3", "/dev/nothing"),
        ])
        func whatCannotBeCapturedIsAnError(properties: String, name: String, excerpt: String) throws {
            try TransformPipeline.run(with: { try .camera($0, properties, prompt: "film noir") }) { pipeline, standIn in
                #expect(pipeline.play() == .failure)
                let error = try #require(pipeline.waitForError())
                #expect(error.name == name && error.text.contains(excerpt), "\(error.name) \(error.text)")
                #expect(standIn.sessions.isEmpty)
            }
        }
    }
}
