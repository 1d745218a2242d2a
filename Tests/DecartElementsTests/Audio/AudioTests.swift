import CGStreamer
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Audio alongside video, checked sample by sample.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct AudioTests {
        @Test func aToneComesBack() throws {
            try TransformPipeline.runWell(with: { try .withAudio($0, frequency: 440) }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                #expect(audioOut.waitForTone(440))
                let seen = audioOut.seen.value
                #expect(seen.events.filter { $0 != .tag }.prefix(3) == [.streamStart, .caps, .segment])
                #expect(seen.caps.contains("S16LE") && seen.caps.contains("rate=(int)48000"))
                #expect(seen.share(of: 880) < 0.1)
                for field in ["in", "sent", "received", "out"] {
                    #expect(pipeline.count("audio-buffers-\(field)") > 0, "\(field)")
                }
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The output is one continuous stream from the start of the pad: each buffer begins where the last one ended,
        /// so that no sink inserts or drops samples; a gap, which only a busy machine causes, is marked.
        @Test func samplesFollowOneAnother() throws {
            try TransformPipeline.run(with: { try .withAudio($0) }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                let before = audioOut.seen.value
                #expect(audioOut.wait { $0.buffers > before.buffers + Verification.count(100, gate: 20) })
                let seen = audioOut.seen.value
                #expect(seen.unsaidHoles.isEmpty, "\(seen.unsaidHoles)")
                measure("gaps", Double(seen.holes.count), atMost: 0, unit: "gaps")
                // Audio timestamps follow the pipeline's running time, as the video's do.
                let now = try #require(pipeline.pipeline.currentRunningTime)
                let delay = Double(Int64(now) - Int64(try #require(seen.end))) / 1e6
                measure("delay", delay, atMost: 1000, unit: "ms")
                measure("delay", delay, atLeast: -200, unit: "ms")
                let latency = try #require(
                    pipeline.pipeline.child(named: "audio-out")?.staticPad("sink")?.queryPeerLatency())
                #expect(latency.live && latency.minimum == 10_000_000)
            }
        }

        /// With DTX, silence costs hardly any packets, and what is heard behind it is one stream with what came before it.
        @Test func silenceIsHardlySent() throws {
            try TransformPipeline.runWell(with: { try .withAudio($0, "audio-dtx=true") }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                let tone = try #require(pipeline.pipeline.child(named: "tone"))
                /// Frames of 20 ms that came, and the packets that left.
                func counts() throws -> (frames: Int, packets: Int) {
                    let frames = pipeline.count("audio-buffers-in") / 2
                    let connections = pipeline.stats?["connections"]?.structure
                    let sending = ["direct", "room", "publisher"].compactMap { connections?[$0]?.structure }.first
                    let packets = sending?["audio-outbound-rtp"]?.structure?.int("packets-sent")
                    return (frames, try #require(packets))
                }
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                tone.set("wave", "silence")
                #expect(audioOut.waitForSilence())
                let before = try counts()
                #expect(eventually { pipeline.count("audio-buffers-in") / 2 >= before.frames + 100 })
                let after = try counts()
                // One packet each 400 ms, and a few until the encoder is sure.
                let (frames, packets) = (after.frames - before.frames, after.packets - before.packets)
                #expect(packets * 4 < frames, "\(packets) packets for \(frames) frames")
                tone.set("wave", "sine")
                #expect(audioOut.waitForTone(440))
                #expect(audioOut.seen.value.unsaidHoles.isEmpty)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Adds and removes audio in PLAYING several times: video continues, the session stays, and no pad or thread is
        /// left.
        @Test func itComesAndGoes() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                let frame = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(pipeline.waitForFrames(Verification.count(20, gate: 3)))
                let id = pipeline.transform.string("session-id")
                let usual = frame.longestGap(since: .now - .milliseconds(900))
                let start = ContinuousClock.now
                var threads = 0
                for round in 0..<Verification.count(3, gate: 2) {
                    let branch = try AudioBranch(TransformPipeline.tone(440 + 220 * round), on: pipeline)
                    let audioOut = try branch.audio()
                    #expect(audioOut.waitForTone(Float(440 + 220 * round)), "round \(round)")
                    branch.release()
                    #expect(branch.isGone.wait { $0 }, "audio_src stays, round \(round)")
                    #expect(audioOut.wait(until: \.isEnded))
                    #expect(eventually { pipeline.transform.staticPad("audio_src") == nil })
                    #expect(pipeline.transform.staticPad("audio_sink") == nil)
                    branch.end()
                    #expect(pipeline.waitForFrames(3), "round \(round)")
                    // The first branch may start threads that the connection keeps for the next one.
                    if round == 0 {
                        threads = Process.threadCount
                    } else {
                        #expect(
                            eventually { Process.threadCount <= threads }, "\(Process.threadCount), not \(threads)")
                    }
                }
                measure("gap", frame.longestGap(since: start), atMost: usual + .milliseconds(500))
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// A pipeline whose element gets audio and no video.
        private func withAudioAlone(_ body: (TransformPipeline, StandIn) throws -> Void) throws {
            try TransformPipeline.run(
                with: {
                    try .init(
                        description: """
                            decarttransform name=t \(TransformPipeline.bare) base-url=\($0.url) api-key=x prompt=noir \
                            \(TransformPipeline.custom) t.src ! fakesink name=out sync=false \
                            \(TransformPipeline.tone(440)) ! t.audio_sink
                            """)
                }, body)
        }

        /// A session is billed, so it begins with the first video.
        @Test(.indifferentToTransport) func audioAloneBeginsNoSession() throws {
            try withAudioAlone { pipeline, standIn in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("no video is linked"), "\(warning.text)")
                #expect(standIn.sessions.isEmpty)
                let video = try Bin(
                    description: "\(TransformPipeline.liveSource) ! identity", ghostUnlinkedPads: true)
                pipeline.pipeline.add(video)
                try #require(video.staticPad("src")).link(try #require(pipeline.transform.staticPad("sink")))
                video.syncStateWithParent()
                #expect(pipeline.waitForFrames(3))
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().count == 1)
            }
        }

        @Test(.indifferentToTransport) func theEndOfAudioAloneIsTheEnd() throws {
            try withAudioAlone { pipeline, standIn in
                pipeline.play()
                pipeline.pipeline.child(named: "tone")?.send(Event.eos())
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                #expect(pipeline.isEnded && standIn.sessions.isEmpty)
                let problems = pipeline.takeProblems()
                #expect(problems.count == 1 && problems.first?.kind == .warning, "\(problems.map(\.text))")
            }
        }

        @Test(.indifferentToTransport) func thereIsOneOfEach() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, _ in
                // The first round is in NULL; the second, after the release, in PLAYING.
                for _ in 0..<2 {
                    let first = try #require(pipeline.transform.requestPad("audio_sink"))
                    #expect(try requestAgain(pipeline.transform) == nil)
                    pipeline.transform.releaseRequestPad(first)
                    #expect(pipeline.transform.staticPad("audio_sink") == nil)
                    pipeline.play()
                    #expect(pipeline.waitForFrames(2))
                }
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Requests by template, because GStreamer itself logs a critical for a request by the name of an existing pad.
        private func requestAgain(_ transform: Element) throws -> UnsafeMutablePointer<GstPad>? {
            let element = transform.raw.assumingMemoryBound(to: GstElement.self)
            let template = try #require(gst_element_get_pad_template(element, "audio_sink"))
            return gst_element_request_pad(element, template, nil, nil)
        }

        @Test func silenceGoesOutWhileItIsMuted() throws {
            try TransformPipeline.runWell(with: { try .withAudio($0) }) { pipeline, standIn in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                let id = pipeline.transform.string("session-id")
                pipeline.transform.set("mute-audio", true)
                #expect(audioOut.waitForSilence())
                let (sent, received) = (
                    pipeline.count("audio-buffers-sent"), pipeline.count("audio-buffers-received")
                )
                let isSent = eventually {
                    pipeline.count("audio-buffers-sent") > sent
                        && pipeline.count("audio-buffers-received") > received
                }
                #expect(isSent)
                #expect(pipeline.waitForFrames(3))
                #expect(audioOut.seen.value.isSilent)
                pipeline.transform.set("mute-audio", false)
                #expect(audioOut.waitForTone(440))
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
            }
        }

        /// While `publish-audio` withdraws the track nothing is sent, yet downstream gets one continuous audio stream.
        @Test func theTrackIsWithdrawnAndComesBack() throws {
            try TransformPipeline.runWell(with: { try .withAudio($0, "publish-audio=false") }) { pipeline, standIn in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                #expect(pipeline.count("audio-buffers-sent") == 0)
                for _ in 1...2 {
                    pipeline.transform.set("publish-audio", true)
                    #expect(audioOut.waitForTone(440))
                    pipeline.transform.set("publish-audio", false)
                    #expect(audioOut.waitForSilence())
                    // A lost packet may sound like silence before the withdrawal takes effect.
                    let isStill = eventually {
                        let sent = pipeline.count("audio-buffers-sent")
                        return pipeline.waitForFrames(3) && pipeline.count("audio-buffers-sent") == sent
                    }
                    #expect(isStill)
                }
                let seen = audioOut.seen.value
                #expect(!seen.isEnded && seen.events.filter { $0 == .streamStart }.count == 1)
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
            }
        }

        /// A reconnect keeps the audio pad and its stream, so that downstream stays linked; each gap in the samples is
        /// marked as a discontinuity.
        @Test func aReconnectKeepsThePad() throws {
            try TransformPipeline.run(with: { try .withAudio($0, "max-retries=5 fallback=freeze") }) {
                pipeline, standIn in
                let audioOut = try pipeline.watchAudio()
                let frame = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                let start = ContinuousClock.now
                standIn.server.closeSessions(code: 1011)
                #expect(standIn.wait { $0.count == 2 && $0.last?.isGenerating == true })
                // Audio of the new connection, so that the tone below is no remainder of the old one.
                let received = pipeline.count("audio-buffers-received")
                #expect(eventually { pipeline.count("audio-buffers-received") > received + 10 })
                #expect(audioOut.waitForTone(440))
                let seen = audioOut.seen.value
                #expect(!seen.isEnded && seen.events.filter { $0 == .streamStart }.count == 1)
                #expect(seen.unsaidHoles.isEmpty, "\(seen.holes)")
                measure("audio gap", audioOut.longestGap(since: start), atMost: .milliseconds(700))
                measure("video gap", frame.longestGap(since: start), atMost: .milliseconds(700))
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        // MARK: End of stream and teardown

        @Test func theEndOfTheVideoEndsTheAudio() throws {
            try TransformPipeline.runWell(with: { try .withAudio($0) }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                pipeline.transform.send(Event.eos())
                #expect(pipeline.wait { $0.isEnded })
                #expect(audioOut.wait(until: \.isEnded))
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
            }
        }

        /// At the end of a film.
        @Test func theAudioOfAFileGoesOnAfterItsLastFrame() throws {
            try TransformPipeline.runWell(with: {
                try .withAudio(
                    $0,
                    audio: "audiotestsrc samplesperbuffer=960 num-buffers=150 ! audio/x-raw,rate=48000,channels=2",
                    source: TransformPipeline.source("num-buffers=20"))
            }) { pipeline, standIn in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                #expect(!audioOut.seen.value.isEnded && standIn.sessions.contains { $0.isOpen })
                #expect(audioOut.wait(until: \.isEnded))
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                // The video ends after a second, the audio after three.
                let seen = audioOut.seen.value
                let (first, end) = (try #require(seen.first), try #require(seen.end))
                #expect(end - first > 2_000_000_000, "\(first) to \(end)")
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session stays open")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The pad that has lost its source gives nothing any more, and the session is billed.
        @Test func audioWithoutASourceDoesNotKeepTheSession() throws {
            try TransformPipeline.run(with: {
                try .withAudio(
                    $0, audio: "audiotestsrc samplesperbuffer=960 ! audio/x-raw,rate=48000,channels=2",
                    source: TransformPipeline.source("num-buffers=20"))
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                let pad = try #require(pipeline.transform.staticPad("audio_sink"))
                if let peer = pad.peer { peer.unlink(pad) }
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session stays open")
            }
        }

        @Test func theEndOfTheInputsSoundEndsNothingElse() throws {
            try TransformPipeline.run(with: { try .withAudio($0) }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                pipeline.pipeline.child(named: "tone")?.send(Event.eos())
                #expect(audioOut.waitForSilence())
                let before = audioOut.seen.value
                #expect(pipeline.waitForFrames(3) && audioOut.wait { $0.buffers > before.buffers + 3 })
                let after = audioOut.seen.value
                #expect(!after.isEnded && !pipeline.isEnded)
                #expect(after.unsaidHoles.isEmpty)
            }
        }

        @Test func aFlushIsSurvived() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                let branch = try AudioBranch(TransformPipeline.tone(440), on: pipeline)
                let audioOut = try branch.audio()
                #expect(audioOut.waitForTone(440))
                let pad = try #require(pipeline.transform.staticPad("audio_sink"))
                let before = pipeline.count("audio-buffers-sent")
                pad.send(Event.flushStart())
                pad.send(Event.flushStop())
                pad.send(Event.streamStart(id: "another", groupID: Event.nextGroupID()))
                pad.send(
                    Event.caps(
                        try Caps(
                            "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)1, layout=(string)interleaved"
                        )))
                pad.send(Event.timeSegment())
                // The source may have pushed during the flush, got FLUSHING and ended its task.
                branch.source.setState(.ready)
                branch.source.syncStateWithParent()
                #expect(eventually { pipeline.count("audio-buffers-sent") > before + 10 })
                #expect(audioOut.waitForTone(440))
                #expect(!audioOut.seen.value.isEnded)
                branch.release()
                #expect(branch.isGone.wait { $0 })
                branch.end()
            }
        }

        @Test func nullInEveryPhase() throws {
            try StandIn.run { standIn in
                for milliseconds in Verification.isOn ? [0, 20, 80, 160, 300, 600, 1200, 2000] : [0, 150, 400] {
                    try TransformPipeline.run(try .withAudio(standIn)) { pipeline in
                        pipeline.play()
                        _ = pipeline.collect(milliseconds: milliseconds)
                        #expect(pipeline.takeProblems().isEmpty)
                    }
                }
                // The same element also restarts, through READY and through NULL.
                try TransformPipeline.run(try .init(standIn)) { pipeline in
                    var counted = 0
                    for round in 0..<3 {
                        let branch = try AudioBranch(TransformPipeline.tone(440), on: pipeline)
                        pipeline.play()
                        #expect(try branch.audio().waitForTone(440), "round \(round)")
                        #expect(pipeline.pipeline.setState(round == 1 ? .null : .ready) == .success)
                        #expect(branch.isGone.wait { $0 } && pipeline.transform.staticPad("audio_src") == nil)
                        // Counters live as long as the element.
                        #expect(pipeline.count("audio-buffers-in") > counted)
                        counted = pipeline.count("audio-buffers-in")
                        branch.release()
                        branch.end()
                    }
                }
                standIn.expectGoodConduct()
            }
        }

        /// A part of a sample was an error of the encoder, and the end of each session.
        @Test(arguments: [("interleaved", "multiple of 4"), ("non-interleaved", "no GstAudioMeta")])
        func buffersThatAreNoSamplesAreDropped(layout: String, excerpt: String) throws {
            let source = "fakesrc is-live=true format=time do-timestamp=true sizetype=fixed sizemax=1921"
            let caps = "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=\(layout)"
            try TransformPipeline.run(with: {
                try .withAudio($0, audio: "\(source) ! identity sleep-time=20000 ! \(caps)")
            }) { pipeline, standIn in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("audio_sink") && warning.text.contains(excerpt), "\(warning.text)")
                #expect(eventually { pipeline.count("audio-buffers-dropped") > 3 })
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.takeProblems().count <= 1 && standIn.sessions.count == 1)
            }
        }

        // MARK: Blocked inputs and sinks

        /// A live source must never block: while there is no session its audio is dropped.
        @Test(.indifferentToTransport) func aLiveInputIsNeverHeldUp() throws {
            try TransformPipeline.run(with: { try .withAudio($0, "auto-connect=false") }) { pipeline, _ in
                pipeline.play()
                #expect(eventually { pipeline.count("audio-buffers-in") > 30 })
                #expect(eventually { pipeline.count("audio-buffers-dropped") > 20 })
                #expect(pipeline.count("audio-buffers-sent") == 0)
                #expect(pipeline.transform.staticPad("audio_src") == nil)
            }
        }

        /// Pauses the branch's sink. Audio that arrives then queues in the output, which counts it as late.
        private func hold(_ branch: AudioBranch, _ pipeline: TransformPipeline) {
            branch.pauseSink()
            let late = pipeline.count("audio-buffers-late")
            #expect(eventually { pipeline.count("audio-buffers-late") > late }, "the sink goes on")
        }

        /// From a sink that stands still, and from one that synchronizes: that holds EOS for the latency, and the pad waits
        /// for it.
        @Test(arguments: [true, false]) func thePadGoesWithoutAFlush(isHeld: Bool) throws {
            try TransformPipeline.run(with: { try .init($0, isHeld ? "" : "latency=2000") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                let branch = try AudioBranch(TransformPipeline.tone(440), isSynchronized: !isHeld, on: pipeline)
                let audioOut = try branch.audio()
                #expect(audioOut.waitForTone(440))
                if isHeld { hold(branch, pipeline) }
                let base = pipeline.pipeline.baseTime
                branch.release()
                #expect(branch.isGone.wait { $0 }, "the pad stays")
                #expect(isHeld || audioOut.seen.value.isEnded)
                // A flush would reset the running time of the whole pipeline.
                #expect(branch.flushes.value == 0 && pipeline.pipeline.baseTime == base)
                #expect(pipeline.waitForFrames(3))
                branch.end()
            }
        }

        @Test func theElementStopsWhileItsSoundIsStuck() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                let branch = try AudioBranch(TransformPipeline.tone(440), on: pipeline)
                #expect(try branch.audio().waitForTone(440))
                hold(branch, pipeline)
                branch.release()
                pipeline.transform.setLockedState(true)
                #expect(pipeline.transform.setState(.null) == .success)
                #expect(branch.isGone.value && pipeline.transform.staticPad("audio_src") == nil)
                branch.end()
                pipeline.transform.setLockedState(false)
            }
        }

        @Test func aSinkThatStandsStillHoldsNobodyUp() throws {
            try TransformPipeline.run(with: { try .withAudio($0) }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                let isHeld = Watched(false)
                pipeline.pipeline.child(named: "audio-out")?.staticPad("sink")?.addProbe(.buffer) { _ in
                    _ = isHeld.wait { !$0 }
                    return .pass
                }
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                isHeld.change { $0 = true }
                let sent = pipeline.count("audio-buffers-sent")
                #expect(pipeline.waitForFrames(10))
                #expect(eventually { pipeline.count("audio-buffers-sent") > sent + 50 })
                #expect(eventually { pipeline.count("audio-buffers-late") > 10 })
                isHeld.change { $0 = false }
                let now = try #require(pipeline.pipeline.currentRunningTime)
                #expect(audioOut.wait { ($0.end ?? 0) > now })
                #expect(audioOut.waitForTone(440))
                #expect(audioOut.seen.value.unsaidHoles.isEmpty)
            }
        }

        /// A muxer may write no start offsets, as mp4mux of GStreamer 1.22 with fragments.
        @Test func bothStreamsBeginTogether() throws {
            try TransformPipeline.run(with: { try .withAudio($0, "fallback=freeze") }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                let video = Watched<UInt64?>(nil)
                try #require(pipeline.pipeline.child(named: "out")?.staticPad("sink")).addProbe(.buffer) { item in
                    if case .buffer(let buffer) = item { video.change { $0 = $0 ?? buffer.pts } }
                    return .pass
                }
                pipeline.play()
                #expect(audioOut.waitForTone(440) && video.wait { $0 != nil })
                let begins = [audioOut.seen.value.first, video.value].compactMap(\.self)
                let distance = (begins.max() ?? 0) - (begins.min() ?? 0)
                // Where the machine has no time for one of them, they begin at different moments.
                #expect(begins.count == 2 && (distance < 50_000_000 || distance > 1_000_000_000), "\(begins)")
            }
        }

        /// A muxer waits for data on every pad, so silence replaces audio that does not arrive.
        @Test func aMuxerGoesOnWithoutSound() throws {
            try TemporaryFolder.with { folder in
                let file = folder.path("both.mkv")
                try TransformPipeline.run(with: {
                    try TransformPipeline(
                        description: """
                            decartsrc name=t \(TransformPipeline.bare) base-url=\($0.url) api-key=x \
                            \(TransformPipeline.custom) source=test audio-source="appsrc is-live=true format=time \
                            caps=audio/x-raw,format=S16LE,rate=48000,channels=1,layout=interleaved" \
                            matroskamux name=mux ! filesink name=out location=\(file) async=false \
                            t.src ! queue ! jpegenc ! mux. t.audio_src ! queue ! mux.audio_0
                            """)
                }) { pipeline, _ in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(10))
                    #expect(eventually { pipeline.count("audio-buffers-silence") > 20 })
                    #expect(pipeline.waitForFrames(10))
                    pipeline.pipeline.send(Event.eos())
                    #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                }
                let played = try Pipeline(
                    description:
                        "filesrc location=\(file) ! matroskademux name=d d.audio_0 ! fakesink name=audio-out sync=false"
                )
                let audioOut = AudioWatch(try #require(played.child(named: "audio-out")?.staticPad("sink")))
                played.setState(.playing)
                defer { played.setState(.null) }
                #expect(audioOut.wait(until: \.isEnded))
                #expect(audioOut.seen.value.buffers > 10 && audioOut.seen.value.isSilent)
            }
        }

        // MARK: Inputs

        @Test(
            .indifferentToTransport,
            arguments: Verification.cases(
                [
                    "format=F32LE,rate=44100,channels=2", "format=S16LE,rate=48000,channels=2,layout=non-interleaved",
                    "format=S24_32BE,rate=96000,channels=6", "format=U8,rate=8000,channels=1",
                    "format=F64LE,rate=11025,channels=8",
                ], gate: 3))
        func everyFormatIsTaken(caps: String) throws {
            try TransformPipeline.run(with: {
                try .withAudio(
                    $0,
                    audio: "audiotestsrc is-live=true freq=440 volume=0.4 ! audioconvert ! audio/x-raw,\(caps)")
            }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(440))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Audio that is not live waits for the session and is then paced by the clock; otherwise it would arrive in
        /// one burst.
        @Test(.indifferentToTransport) func whatIsNotLiveIsPaced() throws {
            try TransformPipeline.run(with: {
                try .withAudio(
                    $0, audio: "audiotestsrc freq=440 volume=0.4 samplesperbuffer=480 num-buffers=150",
                    source: TransformPipeline.source("num-buffers=40"))
            }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                // A slow machine takes longer, never less.
                let time = duration {
                    pipeline.play()
                    #expect(audioOut.waitForTone(440))
                    #expect(eventually { pipeline.count("audio-buffers-in") >= 145 })
                }
                #expect(time > .seconds(1.35), "1.45 seconds came in \(time)")
                measure("dropped", Double(pipeline.count("audio-buffers-dropped")), atMost: 40, unit: "buffers")
            }
        }

        // MARK: decartsrc

        /// With the second source, the pad with audio comes later.
        @Test(arguments: ["", " ! matroskamux streamable=true ! decodebin"])
        func aCameraHasSoundToo(end: String) throws {
            try TransformPipeline.runWell(with: {
                try TransformPipeline(
                    description: """
                        decartsrc name=t \(TransformPipeline.bare) base-url=\($0.url) api-key=x \
                        \(TransformPipeline.custom) source=test audio-source="\(TransformPipeline.tone(660))\(end)" \
                        t.src ! fakesink name=out sync=false t.audio_src ! fakesink name=audio-out sync=false async=false
                        """)
            }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.waitForTone(660))
                pipeline.transform.set("mute-audio", true)
                #expect(audioOut.waitForSilence())
                pipeline.transform.set("mute-audio", false)
                #expect(audioOut.waitForTone(660))
                #expect(pipeline.pipeline.setState(.ready) == .success)
                #expect(pipeline.transform.staticPad("audio_src") == nil)
                let counted = pipeline.count("audio-buffers-in")
                // Plays once more, now without an audio source.
                pipeline.transform.set("audio-source", GValueBox("none"))
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.count("audio-buffers-in") == counted)
            }
        }

        @Test(arguments: [
            ("auto", "No microphone was found"), ("nosuchelement", "audio-source is not a valid description"),
            ("fakesink", "audio-source"),
        ])
        func aSourceThatIsNone(text: String, says: String) throws {
            try TransformPipeline.run(with: { try .camera($0, "\(CameraTests.still) audio-source=\"\(text)\"") }) {
                pipeline, _ in
                #expect(pipeline.play() == .failure)
                #expect(pipeline.waitForError()?.text.contains(says) == true)
            }
        }
    }
}
