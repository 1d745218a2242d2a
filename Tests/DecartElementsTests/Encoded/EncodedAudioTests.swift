import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Opus in, Opus out, each side on its own; the video is encoded on both sides.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct EncodedAudioTests {
        /// An encoder of the application. Noise makes each packet different.
        private static func opus(_ options: String = "", channels: Int = 1, wave: String = "wave=white-noise") -> String
        {
            "audiotestsrc name=tone is-live=true \(wave) volume=0.4 samplesperbuffer=960 ! "
                + "audio/x-raw,rate=48000,channels=\(channels) ! opusenc name=voice \(options)"
        }
        private static func tone(_ frequency: Int) -> String { "wave=sine freq=\(frequency)" }
        private static let packets = "capsfilter caps=audio/x-opus"
        private static let ear = "\(packets) ! opusdec name=ear plc=true ! audioconvert ! audio/x-raw,format=S16LE"

        /// Runs `audio ! t.audio_sink` and `t.audio_src ! downstream ! fakesink name=audio-out`.
        private func run(
            _ audio: String, _ downstream: String, _ properties: String = "",
            _ body: (TransformPipeline, StandIn) throws -> Void
        ) throws {
            try TransformPipeline.runWell(
                with: {
                    try TransformPipeline(
                        description: """
                            decarttransform name=t \(TransformPipeline.bare) base-url=\($0.url) \
                            api-key=\(TransformPipeline.key) \(TransformPipeline.custom) \(properties) \
                            \(EncodedTests.h264()) ! t.sink \
                            t.src ! capsfilter caps=video/x-h264 ! fakesink name=out sync=false \
                            \(audio) ! t.audio_sink \
                            t.audio_src ! \(downstream) ! fakesink name=audio-out sync=false async=false
                            """, settings: [("prompt", "lego")])
                }, standIn: { $0.media.echoesEncoded = true }, body)
        }

        /// Factories of the element's own audio codecs.
        private func codecs(_ pipeline: TransformPipeline) -> Set<String> {
            Set(
                pipeline.pipeline.allElements.filter { !["voice", "ear"].contains($0.name) }.compactMap(\.factoryName)
                    .filter { ["opusenc", "opusdec", "audioresample"].contains($0) })
        }

        private func record(_ pipeline: TransformPipeline) throws -> (input: PacketRecord, output: PacketRecord) {
            let input = try #require(pipeline.transform.staticPad("audio_sink")?.peer)
            let output = try #require(pipeline.pipeline.child(named: "audio-out")?.staticPad("sink"))
            return (PacketRecord(input), PacketRecord(output))
        }

        @Test func packetsPassUnchanged() throws {
            try run(Self.opus(), "capsfilter caps=audio/x-opus,channels=1") { pipeline, _ in
                let (input, output) = try record(pipeline)
                pipeline.play()
                let came = output.waitForPackets(Verification.count(140, gate: 20))
                #expect(came)
                if !came { for problem in pipeline.takeProblems() { Issue.record("\(problem.text)") } }
                // The output first: a packet may pass both between two readings.
                let received = output.current
                let sent = input.current.hashes
                let places = received.hashes.compactMap { sent.firstIndex(of: $0) }
                #expect(places.count == received.hashes.count)
                #expect(zip(places, places.dropFirst()).allSatisfy { $0 < $1 }, "out of order")
                #expect(Set(received.hashes).count == received.hashes.count)
                // In the first two seconds the jitter buffer learns the clock.
                let settled = places.dropFirst(100)
                let missing = zip(settled, settled.dropFirst()).count { $1 != $0 + 1 }
                measure("packets missing", Double(missing), atMost: 0, unit: "packets")
                measure("holes", Double(received.holes.count), atMost: 0, unit: "holes")
                #expect(
                    received.caps.count == 1 && received.caps.allSatisfy { $0.contains("channels=(int)1") })
                #expect(codecs(pipeline) == ["audioresample"])
                #expect(Set(received.hashes).isSubset(of: sent))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func samplesInPacketsOut() throws {
            try run(TransformPipeline.tone(440), Self.ear) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                #expect(codecs(pipeline) == ["opusenc", "audioresample"])
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// `mute-audio` sends packets of silence, which need no encoder.
        @Test func packetsInSamplesOut() throws {
            try run(Self.opus(wave: Self.tone(440)), "audio/x-raw") { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                #expect(codecs(pipeline) == ["opusdec", "audioresample"])
                let (before, silence) = (
                    pipeline.count("audio-buffers-received"), pipeline.count("audio-buffers-silence")
                )
                pipeline.transform.set("mute-audio", true)
                #expect(audioOut.waitForSilence())
                #expect(eventually { pipeline.count("audio-buffers-received") > before + 10 })
                // A little may stand in for a drift of the clocks.
                let more = pipeline.count("audio-buffers-silence") - silence
                measure("silent buffers", Double(more), atMost: 4, unit: "buffers")
                pipeline.transform.set("mute-audio", false)
                #expect(audioOut.waitForTone(440))
                #expect(audioOut.seen.value.unsaidHoles.isEmpty)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// An encoder that sends nothing while it is quiet, and a track that is withdrawn: GAP events take the place of
        /// packets, so that a muxer continues.
        @Test func gapsTakeThePlaceOfPackets() throws {
            try run(Self.opus(), Self.packets) { pipeline, standIn in
                let (_, output) = try record(pipeline)
                let isQuiet = Watched(false)
                try #require(pipeline.pipeline.child(named: "voice")?.staticPad("src")).addProbe(.buffer) { _ in
                    isQuiet.value ? .drop : .pass
                }
                pipeline.play()
                #expect(output.waitForPackets(5))
                let causes: [() -> Void] = [
                    { isQuiet.change { $0 = true } }, { pipeline.transform.set("publish-audio", false) },
                ]
                for quiet in causes {
                    let before = output.current.gaps
                    quiet()
                    #expect(output.wait { $0.gaps > before + 5 })
                    let last = output.current.hashes.count
                    isQuiet.change { $0 = false }
                    pipeline.transform.set("publish-audio", true)
                    #expect(output.wait { $0.hashes.count > last + 5 })
                }
                let seen = output.current
                #expect(seen.caps.count == 1 && !seen.isEnded)
                measure("holes", Double(seen.holes.count), atMost: 0, unit: "holes")
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
            }
        }

        /// The input changes from samples to packets in the middle of a session, on the same stream of RTP.
        @Test func theInputChanges() throws {
            let other = Self.opus(wave: Self.tone(880)).replacing("name=tone", with: "name=other")
            let both =
                "\(TransformPipeline.tone(440)) ! c.sink_0 "
                + "\(other) ! queue leaky=downstream max-size-time=100000000 ! c.sink_1 concat name=c adjust-base=false"
            try run(both, "audio/x-raw") { pipeline, standIn in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                #expect(codecs(pipeline).contains("opusenc"))
                pipeline.pipeline.child(named: "tone")?.send(Event.eos())
                #expect(audioOut.waitForTone(880))
                #expect(eventually { !codecs(pipeline).contains("opusenc") })
                #expect(pipeline.count("packets-refused") == 0)
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
            }
        }

        /// More than two channels are several streams of Opus, which the service does not take.
        @Test func severalStreamsAreRefused() throws {
            try run(Self.opus(channels: 6), Self.packets) { pipeline, _ in
                let pad = try #require(pipeline.transform.staticPad("audio_sink"))
                let family = "audio/x-opus, rate=(int)48000, channels=(int)6, channel-mapping-family=(int)1"
                #expect(try !pad.accepts(Caps(family)))
                #expect(try pad.accepts(Caps(family.replacing("6", with: "2").replacing("y=(int)1", with: "y=(int)0"))))
                pipeline.play()
                #expect(pipeline.waitForError()?.debug.contains("not-negotiated") == true)
            }
        }

        /// A viewer gets the session's packets, and its encoded frames, as they came.
        @Test func aViewerGetsWhatIsSent() throws {
            try run(Self.opus(), Self.packets) { owner, standIn in
                let input = EncodedRecord(try #require(owner.transform.staticPad("sink")?.peer))
                let packets = try record(owner).input
                owner.play()
                #expect(eventually { owner.count("frames-out") > 10 })
                let token = try #require(owner.transform.string("subscribe-token"))
                try TransformPipeline.run(
                    try TransformPipeline(
                        description: """
                            decartsrc name=t \(TransformPipeline.bare) base-url=\(standIn.url) api-key=x \
                            \(TransformPipeline.custom) subscribe-token=\(token) \
                            t.src ! capsfilter caps=video/x-h264 ! fakesink name=out sync=false \
                            t.audio_src ! \(Self.packets) ! fakesink name=audio-out sync=false async=false
                            """)
                ) { viewer in
                    let frames = EncodedRecord(try #require(viewer.transform.staticPad("src")))
                    let audioOut = PacketRecord(
                        try #require(viewer.pipeline.child(named: "audio-out")?.staticPad("sink")))
                    viewer.play()
                    #expect(frames.waitForFrames(5) && audioOut.waitForPackets(10))
                    #expect(frames.current.frames.first?.isKeyframe == true)
                    // The output first: a frame may pass both between two readings.
                    let seen = frames.current.hashes
                    let sent = Set(input.current.hashes)
                    #expect(seen.allSatisfy { sent.contains($0) })
                    let returned = audioOut.current.hashes
                    let played = Set(packets.current.hashes)
                    #expect(returned.allSatisfy { played.contains($0) })
                    #expect(codecs(viewer).isDisjoint(with: ["opusdec", "audioresample"]))
                    #expect(viewer.takeProblems().isEmpty)
                }
            }
        }
    }
}
