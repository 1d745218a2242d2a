import GStreamerKit
import MediaPipeline
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The stream goes on after EOS, however close behind EOS the flush comes that undoes it.
@Suite(.timeLimit(.minutes(2))) struct ResumedOutputTests {
    /// A pad that holds EOS until a flush, as a sink does that has yet to show its last frame.
    private final class Sink: Sendable {
        let pad: Pad
        let ends = Watched(0)
        let flushes = Watched(0)
        let buffers = Watched(0)
        /// Buffers that came behind a segment, as `flush` begins.
        let begun = Watched(0)

        init() {
            pad = Pad(name: "sink", direction: .sink)
            pad.setEventFunction { [ends, flushes] event in
                switch event.kind {
                case .eos:
                    let before = flushes.value
                    ends.change { $0 += 1 }
                    _ = flushes.wait(.seconds(20)) { $0 > before }
                case .flushStart: flushes.change { $0 += 1 }
                default: break
                }
                return .handled(true)
            }
            pad.setChainFunction { [buffers, begun, own = pad.unowned] _ in
                buffers.change { $0 += 1 }
                if own.stickySegment != nil, own.currentCaps != nil { begun.change { $0 += 1 } }
                return .ok
            }
            pad.setActive(true)
        }

        /// Flushes as an application may, from either side, and waits for the stream.
        func flush(_ source: Pad, _ round: Int) throws {
            let events = [Event.flushStart(), .flushStop(resetTime: round == 1), .flushStop(resetTime: false)]
            for pads in [[pad], [source], [source, pad]] {
                for flushed in pads { for event in events { flushed.send(event) } }
                try goesOn("flushed at \(pads.map(\.name))")
            }
        }

        func goesOn(_ comment: Comment) throws {
            let before = begun.value
            try #require(begun.wait(.seconds(20)) { $0 > before + 2 }, comment)
        }
    }

    /// Three times frames arrive, and then `interrupt` is called with the round.
    private func videoGoesOn(_ interrupt: (OutputHost, Pad, Sink, Int) throws -> Void) throws {
        let (element, host) = try OutputHost.make()
        let (pipeline, sink) = (Pipeline(), Sink())
        pipeline.add([element])
        host.output.configure { $0.preferred = OutputFormat(width: 64, height: 36, framerate: (30, 1)) }
        let source = try #require(element.staticPad("src"))
        try source.link(sink.pad)
        pipeline.setState(.playing)
        host.output.set(playing: true)
        defer { pipeline.setState(.null) }
        for round in 1...3 {
            let before = sink.buffers.value
            try #require(sink.buffers.wait(.seconds(20)) { $0 > before + 2 }, "no frames in round \(round)")
            try interrupt(host, source, sink, round)
        }
    }

    /// The flush comes while EOS is on its way, which then ends nothing.
    @Test func videoGoesOn() throws {
        try videoGoesOn { host, _, sink, round in
            host.output.finish()
            try #require(sink.ends.wait(.seconds(20)) { $0 == round })
            host.output.resume()
        }
    }

    private func audioGoesOn(_ interrupt: (OutputHost, Pad, Sink, Int) throws -> Void) throws {
        let (element, host) = try OutputHost.make()
        let (pipeline, sink) = (Pipeline(), Sink())
        pipeline.add([element])
        host.audio.start(latency: nil, playout: Playout(), isViewer: true) { OutputTimeline() }
        pipeline.setState(.playing)
        host.audio.show(as: host.output.identity)
        let source = try #require(element.staticPad("audio_src"))
        try source.link(sink.pad)
        host.audio.set(playing: true)
        defer {
            host.audio.stop()
            pipeline.setState(.null)
        }
        for round in 1...3 {
            let before = sink.buffers.value
            try #require(sink.buffers.wait(.seconds(20)) { $0 > before + 2 }, "no audio in round \(round)")
            try interrupt(host, source, sink, round)
        }
    }

    /// EOS of an input shows the pad, and may come while another thread stops the element.
    @Test func noPadIsAddedBehindTheStop() throws {
        let (element, host) = try OutputHost.make()
        let audio = host.audio
        for _ in 0..<3 {
            audio.start(latency: nil, playout: Playout(), isViewer: true) { OutputTimeline() }
            audio.show(as: host.output.identity)
            #expect(element.staticPad("audio_src") != nil)
            audio.stop()
            audio.show(as: host.output.identity)
            #expect(element.staticPad("audio_src") == nil)
        }
        // A handler stops it while the pad is being added.
        let handler = element.connect("pad-added") { [weak audio] _ in
            audio?.stop()
            return nil
        }
        audio.start(latency: nil, playout: Playout(), isViewer: true) { OutputTimeline() }
        audio.show(as: host.output.identity)
        #expect(element.staticPad("audio_src") == nil)
        withExtendedLifetime(handler) {}
    }

    @Test func audioGoesOn() throws {
        try audioGoesOn { host, _, sink, round in
            host.audio.finish()
            try #require(sink.ends.wait(.seconds(20)) { $0 == round })
            host.audio.resume()
        }
    }

    @Test func flushedAudioGoesOn() throws {
        try audioGoesOn { _, source, sink, round in try sink.flush(source, round) }
    }

    @Test func flushedVideoGoesOn() throws {
        try videoGoesOn { _, source, sink, round in try sink.flush(source, round) }
    }

    /// The events of the stream have left, or had to, and no frame has.
    @Test(arguments: [true, false]) func videoThatIsFlushedBeforeItsFirstFrameBegins(isAnnounced: Bool) throws {
        let (element, host) = try OutputHost.make()
        let (pipeline, sink) = (Pipeline(), Sink())
        pipeline.add([element])
        host.output.configure {
            $0.preferred = OutputFormat(width: 64, height: 36, framerate: (30, 1))
            $0.waits = !isAnnounced
        }
        let source = try #require(element.staticPad("src"))
        try source.link(sink.pad)
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        if isAnnounced { try #require(eventually { sink.pad.stickySegment != nil }) }
        source.send(Event.flushStart())
        if !isAnnounced { host.output.orient(portrait: false) }
        try #require(eventually { source.currentCaps != nil })
        for event in [Event.flushStop(), .flushStart(), .flushStop()] { source.send(event) }
        for event in [Event.flushStart(), .flushStop()] { sink.pad.send(event) }
        host.output.set(playing: true)
        try sink.goesOn("before the first frame")
    }

    /// An application may deactivate a pad in PLAYING, and activate it again.
    @Test func aPadThatIsActivatedAgainGoesOn() throws {
        try videoGoesOn { _, source, _, _ in
            source.setActive(false)
            source.setActive(true)
        }
    }

    /// A pad that is deactivated while the flush passes: neither waits for the other.
    @Test func theEndOfAPadWins() throws {
        for _ in 0..<50 {
            let (element, host) = try OutputHost.make()
            let (pipeline, sink) = (Pipeline(), Sink())
            pipeline.add([element])
            let source = try #require(element.staticPad("src"))
            try source.link(sink.pad)
            pipeline.setState(.playing)
            host.output.set(playing: true)
            host.output.finish()
            let resumed = Watched(false)
            detachThread {
                host.output.resume()
                resumed.change { $0 = true }
            }
            pipeline.setState(.null)
            #expect(resumed.wait(.seconds(20)) { $0 })
        }
    }
}
