import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `standby` and a mute by the service: connected, and nothing is sent or billed.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct StandbyTests {
        private static let look = "film noir"

        private func shown() throws -> CopiedFrame { try Reference.input().applying(prompt: Self.look) }

        /// True once nothing is sent and billed any more; the packets of RTX and audio count too. The service ends the
        /// generation, and with it the ticks, when it has had no frame for a while.
        private func isSilent(_ pipeline: TransformPipeline, _ standIn: StandIn) -> Bool {
            let isStill = { () -> Bool in
                guard standIn.sessions.first?.isGenerating == false else { return false }
                let counts = { () -> [Int?] in
                    let session = standIn.sessions.first
                    return [
                        pipeline.count("packets-sent"), pipeline.count("frames-sent"), session?.frames.painted,
                        session?.tickCount,
                    ]
                }
                let before = counts()
                _ = pipeline.collect(milliseconds: Verification.isOn ? 1500 : 300)
                return before == counts() && pipeline.stats?.string("track-state") == "muted"
            }
            return eventually(isStill)
        }

        /// Rooms are informed of a muted track.
        private func expectMuted(_ isMuted: Bool, _ standIn: StandIn) {
            guard standIn.sessions.first?.room.joinCount == 1 else { return }
            #expect(eventually { standIn.sessions.first?.room.mutedTracks.isEmpty == !isMuted })
        }

        @Test func itIsConnectedAndSendsNothing() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: { try .init($0, "standby=true fallback=black", prompt: Self.look) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(eventually { pipeline.isConnected })
                #expect(eventually { standIn.sessions.first?.promptCount == 1 })
                #expect(isSilent(pipeline, standIn))
                #expect(pipeline.count("frames-sent") == 0 && standIn.sessions.first?.tickCount == 0)
                expectMuted(true, standIn)
                let before = standIn.sessions.first
                for _ in 1...Verification.count(2, gate: 1) {
                    pipeline.transform.set("standby", false)
                    #expect(pipeline.waitForFrame(shown))
                    #expect(eventually { (standIn.sessions.first?.tickCount ?? 0) > 0 })
                    expectMuted(false, standIn)
                    pipeline.transform.set("standby", true)
                    #expect(isSilent(pipeline, standIn))
                    #expect(pipeline.waitForBlack())
                    expectMuted(true, standIn)
                }
                // The service has ended the generation, and the session lives.
                #expect(eventually { pipeline.transform.string("connection-state") == "connected" })
                #expect(pipeline.isConnected)
                let after = standIn.sessions.first
                #expect(after?.offerCount == before?.offerCount && after?.room.joinCount == before?.room.joinCount)
                #expect(after?.promptCount == 1 && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
                #expect(pipeline.timesRise)
            }
        }

        /// Under `scripts/verify` the silence is longer than every watchdog's time.
        @Test func silenceThatWeCausedIsNoFault() throws {
            let shown = try shown()
            let lego = try Reference.input().applying(prompt: "lego")
            try TransformPipeline.runWell(with: { try .init($0, "fallback=freeze", prompt: Self.look) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(shown))
                pipeline.transform.set("standby", true)
                #expect(isSilent(pipeline, standIn))
                expectMuted(true, standIn)
                let problem = pipeline.waitForMessage(seconds: Verification.count(9, gate: 1)) {
                    $0.kind == .error || $0.kind == .warning
                }
                #expect(problem == nil)
                #expect(pipeline.latestFrame.map { $0.difference(from: shown) < 6 } == true)
                pipeline.transform.set("prompt", GValueBox("lego"))
                pipeline.transform.set("standby", false)
                #expect(pipeline.waitForFrame(lego, within: 8))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The service withdraws its output while no frames come, and publishes it again.
        @Test func theOutputMayComeBackInAnotherWay() throws {
            let shown = try shown()
            try TransformPipeline.runWell(
                with: { try .init($0, "fallback=black", prompt: Self.look) }, standIn: { $0.idleOutput = .newMID }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(shown))
                for _ in 1...Verification.count(2, gate: 1) {
                    pipeline.transform.set("standby", true)
                    #expect(isSilent(pipeline, standIn))
                    #expect(eventually { standIn.sessions.first?.isGenerating == false })
                    pipeline.transform.set("standby", false)
                    #expect(pipeline.waitForFrame(shown, within: 8))
                }
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The service need not ask for it: it has not yet ended the generation.
        @Test func aMuteEndsWithAKeyframe() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: Self.look) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(12))
                let name = try #require(pipeline.stats?.string("encoder"))
                let encoder = pipeline.pipeline.allElements.first { $0.factoryName == name }
                let deltas = Watched<[Bool]>([])
                try #require(encoder?.staticPad("src")).addProbe(.buffer) { item in
                    if case .buffer(let frame) = item { deltas.change { $0.append(frame.isDeltaUnit) } }
                    return .pass
                }
                pipeline.transform.set("standby", true)
                var before = 0
                let isStill = eventually {
                    before = deltas.value.count
                    _ = pipeline.collect(milliseconds: 50)
                    return pipeline.stats?.string("track-state") == "muted" && deltas.value.count == before
                        && pipeline.count("frames-encoded") == pipeline.count("frames-sent")
                }
                #expect(isStill)
                pipeline.transform.set("standby", false)
                #expect(deltas.wait { $0.count > before })
                #expect(deltas.value.dropFirst(before).first == false)
            }
        }

        /// Rapid changes: the last value counts, and the session stays.
        @Test func anythingAtAnyTime() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: { try .init($0, "fallback=freeze", prompt: Self.look) }) {
                pipeline, standIn in
                let element = pipeline.transform
                pipeline.play()
                for round in 0..<Verification.count(40, gate: 12) {
                    element.set("standby", round % 2 == 0)
                    if round % 5 == 0 { element.set("mute-video", round % 10 == 0) }
                    _ = pipeline.collect(milliseconds: [0, 5, 60, 250][round % 4])
                }
                element.set("mute-video", false)
                element.set("standby", true)
                #expect(isSilent(pipeline, standIn))
                element.set("standby", false)
                #expect(pipeline.waitForFrame(shown))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test(.enabled(if: MediaWay.current.isRoom, "only rooms have it"))
        func theServicesMuteIsObeyedUntilTheApplicationEndsIt() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: { try .init($0, "fallback=black", prompt: Self.look) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(shown))
                try standIn.server.inject([Fault(parsing: "room_mute")])
                #expect(eventually { pipeline.stats?["muted-by-service"]?.bool == true })
                #expect(isSilent(pipeline, standIn))
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.waitForFrame(shown))
                #expect(eventually { pipeline.stats?["muted-by-service"]?.bool == false })
                expectMuted(false, standIn)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }
    }
}
