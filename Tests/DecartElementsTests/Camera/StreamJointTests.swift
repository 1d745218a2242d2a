import DecartElements
import GStreamerKit
import Synchronization
import Testing

/// The pad to which a camera's live views deliver, without a camera.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct StreamJointTests {
    /// One live view: a source pad linked to the joint's entry, which counts keyframe requests.
    private final class View: Sendable {
        let source = Pad(name: "src", direction: .source)
        let entry: Pad
        let requests = Atomic<Int>(0)

        init(_ joint: StreamJoint) throws {
            entry = joint.makeEntry {}
            source.setEventFunction { [weak self] event in
                if event.isForceKeyUnit { self?.requests.wrappingAdd(1, ordering: .relaxed) }
                return .handled(true)
            }
            source.setActive(true)
            try source.link(entry)
        }

        var count: Int { requests.load(ordering: .relaxed) }

        func close() {
            entry.setActive(false)
            source.setActive(false)
        }
    }

    @Test func aKeyframeRequestGoesToTheNewestView() throws {
        GStreamerRuntime.initialise()
        let joint = StreamJoint(name: "video")
        defer { joint.source.setActive(false) }
        #expect(!joint.source.send(Event.forceKeyUnitUpstream()))
        let first = try View(joint)
        #expect(joint.source.send(Event.forceKeyUnitUpstream()))
        #expect(first.count == 1)
        first.close()
        #expect(!joint.source.send(Event.forceKeyUnitUpstream()))
        let second = try View(joint)
        defer { second.close() }
        #expect(joint.source.send(Event.forceKeyUnitUpstream()))
        #expect((first.count, second.count) == (1, 1))
    }
}
