import GStreamerKit
import TestSupport
import Testing

/// Reference frames, made by GStreamer's own elements only.
enum Reference {
    /// Returns a frame of the standard test input.
    static func input() throws -> CopiedFrame { try frame(TransformPipeline.source("num-buffers=1")) }

    /// Returns the first frame of a pipeline description as I420 in the given size, scaled by videoscale.
    static func frame(
        _ description: String, width: Int = TransformPipeline.width, height: Int = TransformPipeline.height
    ) throws -> CopiedFrame {
        try #require(ElementTests.isReady)
        let pipeline = try Pipeline(
            description: """
                \(description) ! videoconvert ! videoscale add-borders=false ! videoconvert ! \
                video/x-raw,format=I420,width=\(width),height=\(height),colorimetry=bt601,pixel-aspect-ratio=1/1 \
                ! fakesink name=out sync=false
                """)
        defer { pipeline.setState(.null) }
        let pad = try #require(pipeline.child(named: "out")?.staticPad("sink"))
        let frame = Watched<CopiedFrame?>(nil)
        // Only for the thread that pushes.
        nonisolated(unsafe) var video: VideoInfo?
        pad.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
            case .buffer(let buffer): if let video { frame.change { $0 = $0 ?? CopiedFrame(buffer, video) } }
            case .query: break
            }
            return .pass
        }
        pipeline.setState(.playing)
        #expect(frame.wait { $0 != nil })
        return try #require(frame.value)
    }
}
