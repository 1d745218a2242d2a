import CGStreamer
import Dispatch
import GStreamerKit
import TestSupport
import Testing

extension ElementTests {
    /// A flush from upstream while the element stops must not make its input block again: NULL would never return.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct FlushWhileStoppingTests {
        /// An input that is not live; the test pushes its buffers.
        // @unchecked: after `init` only the queue uses it, except for FLUSH_START; the pad locks itself.
        private final class Feed: @unchecked Sendable {
            private let pad = Pad(name: "feed", direction: .source)
            private let queue = DispatchQueue(label: "feed")
            private let caps: String
            private let size: Int
            /// Buffers whose push has returned.
            let returned = Watched(0)

            init(into sink: Pad, caps: String, size: Int) throws {
                (self.caps, self.size) = (caps, size)
                pad.setQueryFunction { query in
                    guard query.kind == .latency else { return .refused }
                    query.answerLatency(live: false, minimum: 0, maximum: nil)
                    return .answered
                }
                pad.setActive(true)
                try pad.link(sink)
            }

            /// Starts a stream and pushes a buffer, which may block inside the element.
            func begin() {
                queue.async { [self] in
                    pad.push(Event.streamStart(id: "feed", groupID: Event.nextGroupID()))
                    if let caps = try? Caps(caps) { pad.push(Event.caps(caps)) }
                    pushBuffer()
                }
            }

            private func pushBuffer() {
                pad.push(Event.timeSegment())
                let buffer = Buffer(size: size)
                buffer.pts = 0
                _ = pad.push(buffer)
                returned.change { $0 += 1 }
            }

            /// Flushes as a flushing seek does: FLUSH_STOP is sent before this returns, and the next buffer follows on
            /// the feed's thread.
            func flushAndGoOn() {
                pad.push(Event.flushStart())
                queue.sync { _ = pad.push(Event.flushStop()) }
                queue.async { [self] in pushBuffer() }
            }
        }

        /// Traps if NULL hangs: the hanging thread holds the pipeline's state lock, so the test process could never
        /// end.
        private func expectDown(_ isDown: Watched<Bool>) {
            if !isDown.wait(until: { $0 }) { fatalError("NULL hangs") }
        }

        private func expectNull(
            _ pipeline: TransformPipeline, _ feed: Feed, counter: String,
            sourceLocation: SourceLocation = #_sourceLocation
        ) {
            pipeline.play()
            feed.begin()
            #expect(
                eventually { pipeline.count(counter) == 1 }, "the buffer does not arrive",
                sourceLocation: sourceLocation)
            // NULL notifies the end of the session after it has woken the input and before the pads are deactivated.
            let isFlushed = Watched(false)
            let handler = pipeline.transform.connect("notify::connection-state") { [weak pipeline] _ in
                guard let pipeline, !isFlushed.value else { return nil }
                isFlushed.change { $0 = true }
                feed.flushAndGoOn()
                let isPushed = eventually { pipeline.count(counter) == 2 || feed.returned.value == 2 }
                #expect(isPushed, "the second buffer is not pushed")
                return nil
            }
            let isDown = Watched(false)
            DispatchQueue.global().async {
                pipeline.pipeline.setState(.null)
                isDown.change { $0 = true }
            }
            expectDown(isDown)
            #expect(isFlushed.value, "NULL did not end a session", sourceLocation: sourceLocation)
            pipeline.transform.disconnect(handler)
        }

        private func run(_ body: (TransformPipeline) throws -> Void) throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init(
                        description: """
                            decarttransform name=t \(TransformPipeline.bare) base-url=\(server.url) api-key=x \
                            \(TransformPipeline.custom) ! fakesink name=out sync=false
                            """), body)
            }
        }

        @Test func videoBehindAFlush() throws {
            try run { pipeline in
                let feed = try Feed(
                    into: try #require(pipeline.transform.staticPad("sink")),
                    caps: "video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1",
                    size: TransformPipeline.width * TransformPipeline.height * 3 / 2)
                expectNull(pipeline, feed, counter: "frames-in")
            }
        }

        @Test func audioBehindAFlush() throws {
            try run { pipeline in
                let entry = try #require(pipeline.transform.requestPad("audio_sink"))
                let feed = try Feed(
                    into: entry, caps: "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=1", size: 1920)
                expectNull(pipeline, feed, counter: "audio-buffers-in")
                pipeline.transform.releaseRequestPad(entry)
            }
        }

        @Test func aSourceThatIsSoughtAllTheTime() throws {
            var random = SeededGenerator(seed: 11)
            try SilentServer.with { server in
                for _ in 0..<Verification.count(40, gate: 12) {
                    try TransformPipeline.run(
                        try .init(
                            "base-url=\(server.url) api-key=x \(TransformPipeline.custom)",
                            source: TransformPipeline.source(""))
                    ) { pipeline in
                        let source = try #require(pipeline.pipeline.child(named: "source"))
                        pipeline.play()
                        let (isOver, isDown) = (Watched(false), Watched(false))
                        let seeks = DispatchGroup()
                        DispatchQueue(label: "seeks").async(group: seeks) {
                            let element = source.raw.assumingMemoryBound(to: GstElement.self)
                            while !isOver.value {
                                gst_element_seek_simple(element, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0)
                            }
                        }
                        _ = pipeline.collect(milliseconds: Int.random(in: 0...8, using: &random))
                        DispatchQueue.global().async {
                            pipeline.pipeline.setState(.null)
                            isDown.change { $0 = true }
                        }
                        expectDown(isDown)
                        isOver.change { $0 = true }
                        seeks.wait()
                    }
                }
            }
        }
    }
}
