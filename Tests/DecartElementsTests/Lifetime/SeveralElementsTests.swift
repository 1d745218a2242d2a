import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct SeveralElementsTests {
        @Test func twoAtOnceDoNotTouchEachOther() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir", forbidden: raw) }) {
                one, standIn in
                try TransformPipeline.run(try .init(standIn, prompt: "anime", forbidden: raw)) { other in
                    one.play()
                    other.play()
                    #expect(one.waitForFrame(raw.applying(prompt: "film noir")))
                    #expect(other.waitForFrame(raw.applying(prompt: "anime")))
                    one.pipeline.setState(.null)
                    #expect(other.waitForFrames(3))
                    #expect(other.waitForFrame(raw.applying(prompt: "anime")))
                    #expect(one.current.leaks + other.current.leaks == 0)
                    one.play()
                    #expect(one.waitForFrames(5))
                    // A failure of one element must not affect the other either.
                    one.transform.set("prompt", GValueBox("refuse-me"))
                    one.pipeline.setState(.null)
                    one.play()
                    #expect(one.waitForError() != nil)
                    #expect(other.waitForFrames(5))
                    #expect(other.takeProblems().isEmpty)
                    other.pipeline.setState(.null)
                }
            }
        }

        @Test func inOnePipelineOnOneSource() throws {
            try StandIn.run { standIn in
                let second =
                    "tee name=tee tee. ! queue ! decarttransform name=u base-url=\(standIn.url) api-key=x \(TransformPipeline.custom) prompt=anime ! fakesink name=other sync=false tee. ! queue"
                try TransformPipeline.run(
                    try .init(standIn, prompt: "film noir", source: TransformPipeline.liveSource + " ! " + second)
                ) { pipeline in
                    let others = Watched(0)
                    let pad = try #require(pipeline.pipeline.child(named: "other")?.staticPad("sink"))
                    pad.addProbe(.buffer) { _ in
                        others.change { $0 += 1 }
                        return .pass
                    }
                    pipeline.play()
                    #expect(pipeline.waitForFrames(3))
                    #expect(others.wait { $0 >= 3 })
                    #expect(pipeline.takeProblems().isEmpty)
                }
                #expect(standIn.sessions.count == 2)
                standIn.expectGoodConduct()
            }
        }

        @Test func itIsAddedToAndRemovedFromARunningPipeline() throws {
            try #require(ElementTests.isReady)
            try StandIn.run { standIn in
                let pipeline = try Pipeline(
                    description:
                        "\(TransformPipeline.liveSource) ! tee name=tee allow-not-linked=true ! queue ! fakesink name=always sync=false"
                )
                let bus = BusWatch(pipeline)
                defer { pipeline.setState(.null) }
                let tee = try #require(pipeline.child(named: "tee"))
                let always = Watched(0)
                try #require(pipeline.child(named: "always")?.staticPad("sink")).addProbe(.buffer) { _ in
                    always.change { $0 += 1 }
                    return .pass
                }
                pipeline.setState(.playing)
                #expect(always.wait { $0 >= 3 })
                for round in 1...Verification.count(5, gate: 3) {
                    weak var implementation: (any ElementImplementation)?
                    do {
                        let branch = try Bin(
                            description: """
                                queue ! decarttransform name=t base-url=\(standIn.url) api-key=x \(TransformPipeline.custom) \
                                prompt=noir ! fakesink name=out sync=false async=false
                                """, ghostUnlinkedPads: true)
                        implementation = branch.child(named: "t")?.implementation
                        let frames = Watched(0)
                        try #require(branch.child(named: "out")?.staticPad("sink")).addProbe(.buffer) { _ in
                            frames.change { $0 += 1 }
                            return .pass
                        }
                        pipeline.add(branch)
                        let source = try #require(tee.requestPad("src_%u"))
                        let sink = try #require(branch.staticPad("sink"))
                        #expect(branch.syncStateWithParent())
                        try source.link(sink)
                        #expect(frames.wait { $0 >= (round % 2 == 0 ? 0 : 5) }, "round \(round)")
                        source.unlink(sink)
                        branch.setLockedState(true)
                        let time = duration { branch.setState(.null) }
                        #expect(time < .seconds(20), "\(time)")
                        measure("NULL", time, atMost: .seconds(1))
                        pipeline.remove(branch)
                        tee.releaseRequestPad(source)
                    }
                    // Messages retain the element that posted them.
                    while let message = bus.next(timeout: .zero) { #expect(message.kind != .error) }
                    let isGone = eventually { implementation == nil }
                    #expect(isGone, "round \(round)")
                    let before = always.value
                    #expect(always.wait { $0 >= before + 5 }, "the other branch stands still")
                }
                while let message = bus.next(timeout: .zero) { #expect(message.kind != .error) }
                standIn.expectGoodConduct()
            }
        }

        @Test func statesChangeFromAnyThreadAtAnyTime() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                let target = pipeline.pipeline
                ThreadGroup.run(threads: 3, rounds: Verification.count(25, gate: 12)) { thread, round in
                    var random = SeededGenerator(seed: UInt64(thread * 1000 + round))
                    let states: [ElementState] = [.null, .ready, .paused, .playing, .playing]
                    _ = target.setState(states.randomElement(using: &random) ?? .playing)
                    _ = target.state(timeout: .milliseconds(Int.random(in: 0...40, using: &random)))
                }
                pipeline.pipeline.setState(.null)
                _ = pipeline.takeProblems()
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
            }
        }
    }
}
