import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// `camera-encoded` with sources that are no cameras. Tests/System/Host/check_live_view.py has the cameras.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct EncodedCameraTests {
        @Test func aSourceOfRawVideoIsRefusedAndWorksWithoutTheProperty() throws {
            try TransformPipeline.run(with: { try .camera($0, "source=test camera-encoded=true") }) {
                pipeline, standIn in
                #expect(pipeline.play() == .failure)
                let problem = try #require(pipeline.waitForError())
                #expect(problem.text.hasPrefix("camera-encoded needs a network camera."))
                #expect(standIn.sessions.isEmpty)
                pipeline.pipeline.setState(.null)
                pipeline.transform.set("camera-encoded", false)
                #expect(pipeline.play() != .failure)
                #expect(pipeline.waitForFrames(5))
            }
        }
    }
}
