import GStreamerKit
import TestSupport
import Testing

/// Adds audio to a running pipeline and removes it again: a source before `audio_sink`, and a sink that is linked to
/// `audio_src` when that pad appears.
// @unchecked: only the test's thread uses the fields; the pad signals touch nothing but the `Watched` values.
final class AudioBranch: @unchecked Sendable {
    let source: Bin
    private let entry: Pad
    private let output: GhostPad
    /// Nil until `audio_src` exists.
    let watch = Watched<AudioWatch?>(nil)
    let isGone = Watched(false)
    /// Flush events that the sink got.
    let flushes = Watched(0)
    private let sink: Element
    private let pipeline: Pipeline
    private let transform: Element
    private var handlers: [SignalHandler] = []

    init(_ description: String, isSynchronized: Bool = false, on running: TransformPipeline) throws {
        (pipeline, transform) = (running.pipeline, running.transform)
        source = try Bin(description: "\(description) ! identity name=last", ghostUnlinkedPads: false)
        sink = try Element(factory: "fakesink")
        sink.set("sync", isSynchronized)
        sink.set("async", false)
        pipeline.add(sink)
        sink.syncStateWithParent()
        let inside = try #require(source.child(named: "last")?.staticPad("src"))
        output = try GhostPad(name: "tone", target: inside)
        source.add(output)
        let input = try #require(sink.staticPad("sink"))
        let (watch, isGone, flushes) = (watch, isGone, flushes)
        input.addProbe(.flushEvent) { _ in
            flushes.change { $0 += 1 }
            return .pass
        }
        handlers.append(
            transform.connect("pad-added") { arguments in
                guard let pad = arguments.first?.pad, pad.name == "audio_src" else { return nil }
                watch.change { $0 = AudioWatch(input) }
                try? pad.link(input)
                return nil
            })
        handlers.append(
            transform.connect("pad-removed") { arguments in
                if arguments.first?.pad?.name == "audio_src" { isGone.change { $0 = true } }
                return nil
            })
        entry = try #require(transform.requestPad("audio_sink"))
        // Locked, because a pipeline on its way to PLAYING would otherwise start the source before it is linked.
        source.setLockedState(true)
        pipeline.add(source)
        try output.link(entry)
        source.setLockedState(false)
        source.syncStateWithParent()
    }

    /// Waits for `audio_src` and returns its watch.
    func audio() throws -> AudioWatch {
        _ = watch.wait { $0 != nil }
        return try #require(watch.value, "audio_src has not come")
    }

    func release() {
        source.setLockedState(true)
        // The source stops before it is unlinked: it posts an error if it pushes a buffer in between.
        source.setState(.null)
        output.unlink(entry)
        transform.releaseRequestPad(entry)
        pipeline.remove(source)
    }

    /// Pauses only the sink behind `audio_src`: it then takes one buffer, and one more after each flush.
    func pauseSink() {
        sink.setLockedState(true)
        sink.setState(.paused)
    }

    /// Removes the sink; call it after `audio_src` is gone.
    func end() {
        for handler in handlers { transform.disconnect(handler) }
        pipeline.takeOut([sink])
    }
}
