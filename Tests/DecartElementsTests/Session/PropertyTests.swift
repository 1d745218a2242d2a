import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct PropertyTests {
        private func element() throws -> Element {
            try #require(ElementTests.isReady)
            return try Element(factory: "decarttransform")
        }

        @Test(arguments: [
            ("base-url", "wss://example.com/path"), ("ca-file", "/etc/ssl/some.pem"), ("api-key-file", "/run/key"),
            ("model", "lucy-2.5"), ("prompt", "a \"quoted\" prompt, with ümlaut"), ("reference-image", "/tmp/x.png"),
            ("stun-server", "stun://stun.example.com:3478"), ("encoder", "vp8enc"), ("local-address", "eth0"),
            ("http-proxy", "http://proxy.example.com:3128"), ("rtp-port-range", "40000-40049"),
        ])
        func aTextReadsBack(name: String, value: String) throws {
            let element = try element()
            element.set(name, GValueBox(value))
            #expect(element.string(name) == value)
            element.set(name, GValueBox(String?.none))
            #expect(element.string(name) != value)
        }

        @Test(arguments: [
            ("width", 640, 0), ("height", 360, 0), ("framerate", 24, 0), ("connection-timeout", 7, 15),
            ("media-timeout", 0, 15),
            ("min-bitrate", 400_000, 100_000), ("max-bitrate", 4_000_000, 0),
            ("latency", 50, -1), ("timestamps", 1, 0),
            ("orientation", 2, 0), ("fit", 1, 0), ("ice-transport-policy", 1, 0), ("codec", 3, 0),
            ("max-retry-delay", 60, 10), ("keyframe-interval", 5, 2),
            ("congestion-control", 1, 0), ("degradation-preference", 2, 0), ("output-size", 1, 0), ("transport", 2, 0),
            ("track", 1, 0), ("resolution", 2, 0),
            ("speed", 1, 0),
        ])
        func aNumberHasItsDefaultAndReadsBack(name: String, value: Int, standard: Int) throws {
            let element = try element()
            #expect(element.int(name) == standard)
            element.set(name, value)
            #expect(element.int(name) == value)
        }

        @Test(arguments: ["insecure", "enrich", "mute-audio", "audio-dtx"]) func aSwitchReadsBack(name: String) throws {
            let element = try element()
            #expect(element.bool(name) == false)
            element.set(name, true)
            #expect(element.bool(name) == true)
        }

        @Test func whatIsUnsetSaysSo() throws {
            let element = try element()
            #expect(element.string("base-url") == "wss://api.decart.ai")
            #expect(element.string("model") == "lucy-restyle-2")
            #expect(element.string("prompt") == "")
            #expect(element.string("stun-server") == "stun://stun.l.google.com:19302")
            for name in ["ca-file", "api-key-file", "reference-image", "session-id", "rtp-port-range"] {
                #expect(element.string(name) == nil)
            }
            #expect(element.value("turn-servers")?.strings == [])
            #expect(element.int("connection-state") == 0)
        }

        @Test(arguments: [
            ("base-url", "wss://user:secret@example.com/v1", "wss://redacted@example.com/v1"),
            ("base-url", "wss://example.com/v1?api_key=secret", "wss://example.com/v1?redacted"),
            ("base-url", "user:secret@example.com", "redacted@example.com"),
            ("http-proxy", "http://user:canary@proxy.example.com:3128", "http://redacted@proxy.example.com:3128"),
        ])
        func credentialsInURLsReadBackRedacted(name: String, url: String, shown: String) throws {
            let element = try element()
            element.set(name, GValueBox(url))
            #expect(element.string(name) == shown)
        }

        @Test func credentialsOfRelaysReadBackRedacted() throws {
            let element = try element()
            let servers = [
                "turn://user:secret@turn.example.com:3478?transport=tcp", "turns://u:p%40secret@[::1]:5349",
                "turn:user:secret@old.example.com",
            ]
            element.set("turn-servers", GValueBox(strings: servers))
            let shown = element.value("turn-servers")?.strings ?? []
            #expect(shown.count == 3)
            #expect(shown.first == "turn://redacted@turn.example.com:3478?transport=tcp")
            #expect(!shown.joined().contains("secret"))
            #expect(!shown.joined().contains("user"))
        }

        static let counters = [
            "frames-in", "frames-sent", "frames-dropped", "frames-skipped", "frames-received", "frames-out",
            "frames-late",
            "packets-sent", "bytes-sent", "padding-bytes-sent", "packets-received", "bytes-received", "packets-refused",
            "nacks-sent",
            "nacks-received", "plis-sent", "plis-received", "retries",
        ]
        static let unknowns = [
            "packets-lost", "round-trip-time", "jitter", "target-bitrate", "remote-bitrate-estimate", "received-width",
            "received-height", "glass-to-glass-time", "time-to-first-frame", "connect-time", "connect-open-time",
            "connect-upgrade-time", "connect-ack-time", "connect-ice-time", "connect-dtls-time",
        ]

        @Test func statsAreThereInEveryState() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                func check(_ state: String) throws {
                    let stats = try #require(pipeline.stats)
                    #expect(stats.name == "application/x-decarttransform-stats")
                    for field in Self.counters + Self.unknowns + ["relayed", "local-candidate-type"] {
                        #expect(stats.fields.contains(field), "\(field) is missing in \(state)")
                    }
                    for field in Self.counters { #expect((stats.int(field) ?? -1) >= 0, "\(field) in \(state)") }
                    for field in Self.unknowns { #expect((stats.int(field) ?? -2) >= -1, "\(field) in \(state)") }
                }
                try check("NULL")
                for field in Self.counters { #expect(pipeline.count(field) == 0) }
                for field in Self.unknowns { #expect(pipeline.count(field) == -1, "\(field)") }
                pipeline.pipeline.setState(.ready)
                try check("READY")
                pipeline.pipeline.setState(.paused)
                try check("PAUSED")
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                // Round-trip time and jitter need the first RTCP reports.
                #expect(eventually { pipeline.count("round-trip-time") >= 0 })
                try check("PLAYING")
                let stats = try #require(pipeline.stats)
                for field in [
                    "frames-in", "frames-sent", "frames-received", "frames-out", "packets-sent", "bytes-sent",
                    "packets-received", "bytes-received", "target-bitrate", "time-to-first-frame", "connect-time",
                    "connect-ice-time", "connect-dtls-time", "connect-ack-time", "connect-open-time",
                    "connect-upgrade-time",
                ] {
                    #expect((stats.int(field) ?? 0) > 0, "\(field)")
                }
                #expect(stats.int("received-width") == 320)
                #expect(stats.int("received-height") == 176)
                #expect(stats.string("local-candidate-type") == "host")
                #expect(stats["relayed"]?.bool == false && stats["receive-relayed"]?.bool == false)
                let phases = ["connect-open-time", "connect-upgrade-time", "connect-ack-time"].map {
                    stats.int($0) ?? 0
                }
                #expect(phases.reduce(0, +) <= (stats.int("time-to-first-frame") ?? 0) * 3)
                pipeline.pipeline.setState(.null)
                try check("NULL again")
            }
        }

        /// Further query items reach the service, and no message, statistic or log line shows their values.
        @Test(.indifferentToTransport) func furtherQueryItems() throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                    pipeline.transform.set("query-items", GValueBox("trace=a%26b&team=hidden-value"))
                    #expect(pipeline.transform.string("query-items") == "trace=a%26b&team=hidden-value")
                    pipeline.play()
                    #expect(pipeline.waitForFrames(2))
                    #expect(standIn.sessions.first?.request.otherItems == ["trace": "a&b", "team": "hidden-value"])
                    #expect(pipeline.stats?.description.contains("hidden-value") == false)
                }
                for text in ["api_key=other", "nothing", "model=x"] {
                    try TransformPipeline.run(try .init(standIn)) { pipeline in
                        pipeline.transform.set("query-items", GValueBox(text))
                        #expect(pipeline.play() == .failure)
                        let error = try #require(pipeline.waitForError())
                        #expect(error.text.contains("query-items"))
                        #expect(error.details?.string("code") == "INVALID_OPTIONS")
                    }
                }
                #expect(standIn.sessions.count == 1)
            }
        }

        /// The service decides on a speed that the model is not known to offer and on a retired model. Values that the
        /// properties do not know go out as query items, in place of the properties'.
        @Test(
            .indifferentToTransport,
            arguments: [
                ("model=lucy-2.1 speed=fast", "", ["speed=fast", "lucy-2.1"], ["lucy-2.1", "fast", nil]),
                (
                    "resolution=720p speed=fast", "resolution=1080p&speed=turbo", ["query-items", "speed"],
                    ["test-model", "turbo", "1080p"]
                ),
                ("model=mirage_v2", "", ["mirage_v2", "lucy-restyle-2"], ["mirage_v2", nil, nil]),
            ] as [(String, String, [String], [String?])])
        func whatTheServiceMayRefuseIsSentWithOneWarning(
            properties: String, items: String, words: [String], sent: [String?]
        ) throws {
            try TransformPipeline.run(with: { try .init($0, properties, prompt: "film noir") }) { pipeline, standIn in
                pipeline.transform.set("query-items", GValueBox(items))
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(words.allSatisfy { warning.text.contains($0) }, "\(warning.text)")
                #expect(warning.details?.string("code") == "INVALID_OPTIONS")
                #expect(pipeline.waitForFrames(2))
                let request = try #require(standIn.sessions.first?.request)
                #expect([request.model, request.speed, request.resolution] == sent)
                #expect(pipeline.takeProblems().count == 1)
            }
        }

        /// Against what Decart's SDKs send (`StrictRules`).
        @Test func nothingIsSentThatNoSDKSends() throws {
            let properties = "model=lucy-2.5 resolution=720p speed=fast timestamps=capture reference-image=file_1"
            try StandIn.run({ $0.isStrict = true }) { standIn in
                try TransformPipeline.run(try .init(standIn, properties, prompt: "film noir")) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(2))
                    pipeline.transform.set("prompt", GValueBox("anime"))
                    #expect(standIn.wait { $0.first?.prompts.last == "anime" })
                    pipeline.transform.set("reference-image", GValueBox(String?.none))
                    pipeline.transform.set("prompt", GValueBox(""))
                    #expect(standIn.wait { $0.first?.passthroughCount == 1 })
                    #expect(pipeline.waitForFrames(2))
                    #expect(pipeline.takeProblems().isEmpty)
                }
                standIn.expectGoodConduct()
                try TransformPipeline.run(try .init(standIn, "model=lucy-2.5", prompt: "film noir")) { pipeline in
                    pipeline.transform.set("query-items", GValueBox("trace=1"))
                    pipeline.play()
                    #expect(pipeline.waitForError()?.text.contains("unknown query item trace") == true)
                }
            }
        }

        @Test func stateAndSessionAreToldAsTheyChange() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                let states = Watched<[Int]>([])
                let ids = Watched<[String]>([])
                pipeline.transform.connect("notify::connection-state") { [weak pipeline] _ in
                    if let state = pipeline?.transform.int("connection-state") { states.change { $0.append(state) } }
                    return nil
                }
                pipeline.transform.connect("notify::session-id") { [weak pipeline] _ in
                    if let id = pipeline?.transform.string("session-id") { ids.change { $0.append(id) } }
                    return nil
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                // connecting, connected, generating
                #expect(states.wait { $0.last == 3 })
                #expect(states.value == [1, 2, 3])
                #expect(ids.value == standIn.sessions.map(\.sessionID))
                pipeline.pipeline.setState(.null)
                #expect(pipeline.transform.int("connection-state") == 0)
            }
        }

        @Test func noGraphOfThePipelineShowsASecret() throws {
            try TransformPipeline.run(with: {
                try .init(
                    $0, "turn-servers=<\"turn://someone:credential-nobody-sees@127.0.0.1:9\">",
                    prompt: "film noir")
            }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                let dot = pipeline.pipeline.dotDescription()
                #expect(dot.contains("GstDecartTransform"))
                #expect(!dot.contains(TransformPipeline.key))
                #expect(!dot.contains("credential-nobody-sees"))
                // A room's token, a JWT, begins like this.
                #expect(!dot.contains("eyJhbGciOi"))
                #expect(pipeline.stats.map { !$0.description.contains(TransformPipeline.key) } == true)
            }
        }

        /// The start has read the settings, and has made no session yet, when it asks downstream for its caps.
        @Test(.indifferentToTransport, arguments: [("prompt", "anime"), ("max-session-duration", "1")])
        func aChangeDuringTheStartCounts(name: String, value: String) throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                // The change to READY asks too.
                pipeline.pipeline.setState(.ready)
                pipeline.sink.addProbe(.query) { [weak transform = pipeline.transform] item in
                    guard case .query(let query) = item, query.kind == .caps else { return .pass }
                    transform?.set(name, value)
                    return .remove
                }
                pipeline.play()
                if name == "prompt" {
                    #expect(pipeline.waitForFrame(raw.applying(prompt: value)))
                } else {
                    #expect(pipeline.waitForError()?.text.contains("Session expired") == true)
                }
            }
        }

        @Test(.indifferentToTransport) func manyThreadsMaySetAndRead() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let transform = pipeline.transform
                ThreadGroup.run(threads: 4, rounds: Verification.count(60, gate: 30)) { thread, round in
                    switch (thread + round) % 5 {
                    case 0: transform.set("prompt", GValueBox("prompt \(thread) \(round)"))
                    case 1: _ = transform.structure("stats")
                    case 2: transform.set("fit", round % 3)
                    case 3:
                        transform.withFrozenNotifications {
                            $0.set("enrich", round % 2 == 0)
                            $0.set("prompt", "noir")
                        }
                    default:
                        _ = transform.string("turn-servers")
                        _ = transform.int("connection-state")
                    }
                }
                transform.set("prompt", GValueBox("the last word"))
                #expect(standIn.wait { $0.first?.prompts.last == "the last word" })
                #expect(pipeline.waitForFrames(5))
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }
    }
}
