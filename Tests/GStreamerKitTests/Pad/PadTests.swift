import GStreamerKit
import Synchronization
import Testing

/// Bare pads linked in memory: verifies that the verdicts of probes and chain functions take effect.
@Suite(.timeLimit(.minutes(1)))
struct PadTests {
    final class Joined: Sendable {
        let source: Pad
        let sink: Pad
        let arrived = Mutex<[Int]>([])
        let events = Mutex<[Event.Kind]>([])

        init() throws {
            GStreamerRuntime.initialise()
            source = Pad(name: "src", direction: .source)
            sink = Pad(name: "sink", direction: .sink)
            sink.setChainFunction { [weak self] buffer in
                self?.arrived.withLock { $0.append(buffer.size) }
                return buffer.size == 99 ? .eos : .ok
            }
            sink.setEventFunction { [weak self] event in
                self?.events.withLock { $0.append(event.kind) }
                return .handled(true)
            }
            try source.link(sink)
            source.setActive(true)
            sink.setActive(true)
            source.push(Event.streamStart(id: "test", groupID: 1))
            source.push(Event.caps(try Caps("application/x-test")))
            source.push(Event.timeSegment())
        }

        deinit {
            source.setActive(false)
            sink.setActive(false)
        }
        var sizes: [Int] { arrived.withLock { $0 } }
    }

    private func buffer(_ size: Int) -> Buffer {
        let bytes = [UInt8](repeating: 7, count: size)
        return bytes.withUnsafeBytes { Buffer(copying: $0) }
    }

    @Test func buffersAndTheirFlowReturns() throws {
        let joined = try Joined()
        #expect(joined.source.push(buffer(3)) == .ok)
        #expect(joined.source.push(buffer(99)) == .eos)
        #expect(joined.sizes == [3, 99])
        #expect(joined.events.withLock { $0 } == [.streamStart, .caps, .segment])
        joined.sink.setActive(false)
        #expect(joined.source.push(buffer(1)) == .flushing)
        // A pushed buffer is empty afterwards, because the push took the ownership.
        let used = buffer(4)
        _ = joined.source.push(used)
        #expect(joined.source.push(used) == .error)
        #expect(used.size == 0)
    }

    @Test func aPadWithoutPeer() {
        GStreamerRuntime.initialise()
        let lonely = Pad(name: "src", direction: .source)
        #expect(lonely.peer == nil && !lonely.isLinked)
        lonely.setActive(true)
        #expect(lonely.push(buffer(1)) == .notLinked)
        #expect(lonely.queryPeerLatency() == nil)
        lonely.setActive(false)
    }

    @Test func verdictsOnBuffers() throws {
        let joined = try Joined()
        joined.source.addProbe(.buffer) { item in
            guard case .buffer(let found) = item else { return .pass }
            switch found.size {
            case 1: return .drop
            case 2: return .replace([UInt8](repeating: 0, count: 20).withUnsafeBytes { Buffer(copying: $0) })
            case 3: return .handled
            case 4: return .remove
            default: return .pass
            }
        }
        for size in 0...5 { #expect(joined.source.push(buffer(size)) == .ok) }
        #expect(joined.sizes == [0, 20, 4, 5])
        // The probe removed itself with `.remove`.
        _ = joined.source.push(buffer(1))
        #expect(joined.sizes == [0, 20, 4, 5, 1])
    }

    @Test func verdictsOnEvents() throws {
        let joined = try Joined()
        joined.source.addProbe([.downstreamEvent]) { item in
            guard case .event(let event) = item else { return .pass }
            switch event.kind {
            case .gap: return .drop
            case .customDownstream: return .replaceEvent(Event.eos())
            default: return .pass
            }
        }
        joined.source.push(Event.gap(at: 0, duration: 1))
        #expect(joined.events.withLock { $0.count } == 3)
        joined.source.push(Event.customDownstream(Structure("anything")))
        #expect(joined.events.withLock { $0.last } == .eos)
    }

    /// A probe's closure is released together with the probe.
    @Test func probesLetGo() throws {
        final class Token: Sendable {}
        weak var gone: Token?
        let joined = try Joined()
        do {
            let token = Token()
            gone = token
            joined.source.addProbe(.buffer) { _ in
                _ = token
                return .remove
            }
            #expect(gone != nil)
            _ = joined.source.push(buffer(1))
        }
        #expect(gone == nil)
        do {
            let token = Token()
            gone = token
            let pad = Pad(name: "x", direction: .sink)
            pad.setChainFunction { _ in
                _ = token
                return .ok
            }
        }
        #expect(gone == nil)
    }

    /// A probe runs between the pad's look at its sticky events and at its peer, where another thread may link it too.
    @Test func aLinkMadeDuringAPushLetsNoBufferThroughAheadOfItsSegment() throws {
        let joined = try Joined()
        joined.source.unlink(joined.sink)
        let links = Mutex(0)
        joined.source.addProbe(.buffer) { [source = joined.source.unowned, sink = joined.sink.unowned] _ in
            links.withLock { $0 += 1 }
            try? source.link(sink)
            return .pass
        }
        #expect(joined.source.pushIfLinked(buffer(1)) == .notLinked)
        #expect(links.withLock { $0 } == 0 && joined.sizes.isEmpty)
        try joined.source.link(joined.sink)
        #expect(joined.source.pushIfLinked(buffer(2)) == .ok)
        #expect(joined.sizes == [2])
        #expect(joined.events.withLock { $0 } == [.streamStart, .caps, .segment])
    }

    @Test func latencyQueriesAreAnswered() throws {
        let joined = try Joined()
        joined.sink.setQueryFunction { _ in .forward }
        joined.source.setQueryFunction { query in
            guard query.kind == .latency else { return .forward }
            query.answerLatency(live: true, minimum: 40_000_000, maximum: nil)
            return .answered
        }
        let answer = try #require(joined.sink.queryPeerLatency())
        #expect(answer.live && answer.minimum == 40_000_000)
    }

    /// GStreamer itself repeats the events of the stream to a branch that has been set to READY or NULL.
    @Test func aRestartedPeerGetsTheStreamAgain() throws {
        let joined = try Joined()
        #expect(!joined.source.lacksSegment)
        joined.sink.setActive(false)
        joined.sink.setActive(true)
        #expect(joined.source.lacksSegment)
        joined.events.withLock { $0 = [] }
        #expect(joined.source.push(buffer(5)) == .ok)
        #expect(joined.events.withLock { $0 } == [.streamStart, .caps, .segment])
        #expect(!joined.source.lacksSegment)
    }

    private static let flushes: [(String, @Sendable (Joined, Event) -> Void)] = [
        ("into the peer", { $0.sink.send($1) }), ("through the pad", { $0.source.push($1) }),
        ("from downstream", { $0.source.send($1) }),
    ]

    /// Behind a flush, whichever way it came, GStreamer repeats all but the segment.
    @Test func aFlushTakesTheSegment() throws {
        for (name, flush) in Self.flushes {
            let joined = try Joined()
            joined.source.setEventFunction { _ in .handled(true) }
            for event in [Event.flushStart(), .flushStop(), .flushStop()] { flush(joined, event) }
            #expect(joined.source.lacksSegment, "\(name)")
            #expect(joined.source.currentCaps != nil && joined.sink.currentCaps != nil, "\(name)")
            joined.source.push(Event.timeSegment())
            #expect(joined.source.push(buffer(5)) == .ok, "\(name)")
            #expect(joined.sink.stickySegment != nil && !joined.source.lacksSegment, "\(name)")
        }
    }

    /// A pad that is flushing takes no segment, and one that is not active no event at all.
    @Test func aPadRepeatsTheStreamThatHasComeToAnother() throws {
        let (origin, joined) = (Pad(name: "origin", direction: .sink), try Joined())
        origin.setEventFunction { [source = joined.source] in
            source.push($0)
            return .handled(true)
        }
        origin.setActive(true)
        defer { origin.setActive(false) }
        joined.source.setActive(false)
        origin.send(Event.streamStart(id: "other", groupID: 2))
        origin.send(Event.caps(try Caps("application/x-other")))
        origin.send(Event.timeSegment())
        joined.source.setActive(true)
        #expect(joined.source.lacksSegment)
        joined.events.withLock { $0 = [] }
        joined.source.repeatStream(of: origin)
        #expect(joined.events.withLock { $0 } == [.streamStart, .caps, .segment])
        #expect(joined.source.push(buffer(5)) == .ok)
        #expect(joined.sink.currentCaps?.first?.name == "application/x-other" && !joined.source.lacksSegment)
    }

    @Test func anUnlinkedPadLacksNothing() throws {
        let joined = try Joined()
        joined.source.unlink(joined.sink)
        #expect(!joined.source.lacksSegment)
    }
}

@Suite struct EventPassageTests {
    private func custom(_ name: String) -> Event { .customDownstream(Structure(name, ("a", GValueBox(1 == 1)))) }

    @Test func eventsOfTheApplicationPassAndThoseOfTheStreamDoNot() throws {
        GStreamerRuntime.initialise()
        #expect(custom("of-the-application").downstreamPassage == .inOrder)
        let own = [
            Event.streamStart(id: "a", groupID: 1), .caps(try Caps("video/x-raw")), .timeSegment(), .eos(),
            .gap(at: 1, duration: 1), .flushStart(), .flushStop(),
        ]
        for event in own { #expect(event.downstreamPassage == nil && !event.passesUpstream) }
        #expect(!Event.forceKeyUnitUpstream().passesUpstream && Event.forceKeyUnitUpstream().downstreamPassage == nil)
    }
}
