import GStreamerKit
import Testing

/// Sound that is added to a running pipeline and taken away again: a source before `audio_sink`, a sink behind `audio_src`,
/// which is linked when it appears.
// @unchecked: fields are the test's thread's, but for what is watched.
final class SoundBranch: @unchecked Sendable {
    let source: Bin
    private let entry: Pad
    private let output: GhostPad
    /// Nothing before the pad is there.
    let watch = Watched<SoundWatch?>(nil)
    let isGone = Watched(false)
    private let sink: Element
    private let pipeline: Pipeline
    private let transform: Element
    private var handlers: [SignalHandler] = []

    init(_ description: String, on running: TransformPipeline) throws {
        (pipeline, transform) = (running.pipeline, running.transform)
        source = try Bin(description: "\(description) ! identity name=last", ghostUnlinkedPads: false)
        sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        sink.set("async", false)
        pipeline.add(sink)
        sink.syncStateWithParent()
        let inside = try #require(source.child(named: "last")?.staticPad("src"))
        output = try GhostPad(name: "tone", target: inside)
        source.add(output)
        let input = try #require(sink.staticPad("sink"))
        let (watch, isGone) = (watch, isGone)
        handlers.append(
            transform.connect("pad-added") { arguments in
                guard let pad = arguments.first?.pad, pad.name == "audio_src" else { return nil }
                watch.change { $0 = SoundWatch(input) }
                try? pad.link(input)
                return nil
            })
        handlers.append(
            transform.connect("pad-removed") { arguments in
                if arguments.first?.pad?.name == "audio_src" { isGone.change { $0 = true } }
                return nil
            })
        entry = try #require(transform.requestPad("audio_sink"))
        // A pipeline that is just on its way to PLAYING would take it along before it is linked.
        source.setLockedState(true)
        pipeline.add(source)
        try output.link(entry)
        source.setLockedState(false)
        source.syncStateWithParent()
    }

    /// As soon as `audio_src` is there.
    func sound() throws -> SoundWatch {
        _ = watch.wait(seconds: 20) { $0 != nil }
        return try #require(watch.value, "audio_src has not come")
    }

    func release() {
        source.setLockedState(true)
        output.unlink(entry)
        transform.releaseRequestPad(entry)
        source.setState(.null)
        pipeline.remove(source)
    }

    /// The sink behind `audio_src` pauses by itself: it takes one buffer, and one more after each flush.
    func pauseSink() {
        sink.setLockedState(true)
        sink.setState(.paused)
    }

    /// When `audio_src` has gone too.
    func end() {
        for handler in handlers { transform.disconnect(handler) }
        sink.setState(.null)
        pipeline.remove(sink)
    }
}
