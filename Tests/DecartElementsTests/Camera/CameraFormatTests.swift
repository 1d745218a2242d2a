import DecartElements
import DecartProtocol
import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct CameraFormatTests {
    /// The chosen format needs the least scaling and frame dropping for the model, here 320 × 176 at 20 fps.
    @Test(arguments: [
        // The smallest format that covers it.
        (
            "width=1280,height=720,framerate=30/1 width=640,height=360,framerate=30/1 width=160,height=88,framerate=30/1",
            "640x360", 30
        ),
        // Either orientation covers it.
        ("width=1280,height=720,framerate=30/1 width=180,height=320,framerate=30/1", "180x320", 30),
        // Otherwise the largest.
        ("width=160,height=88,framerate=30/1 width=300,height=170,framerate=30/1", "300x170", 30),
        // A larger format that is fast enough precedes a smaller one that is not.
        ("width=320,height=176,framerate=10/1 width=640,height=360,framerate=25/1", "640x360", 25),
        // Otherwise the fastest.
        ("width=320,height=176,framerate=5/1 width=640,height=360,framerate=15/1", "640x360", 15),
        // The slowest rate that is fast enough, or the model's exact rate if a range contains it.
        ("width=320,height=176,framerate=(fraction){10/1,24/1,60/1}", "320x176", 24),
        ("width=320,height=176,framerate=(fraction)[1/1,60/1]", "320x176", 20),
        ("width=[16,1920],height=[16,1080],framerate=(fraction)[1/1,60/1]", "320x176", 20),
    ])
    func theFormatIsChosenForTheModel(formats: String, size: String, rate: Int) throws {
        GStreamerRuntime.initialise()
        let caps = formats.split(separator: " ").map { "video/x-raw,format=I420,\($0)" }.joined(separator: ";")
        let model = VideoFormat(width: 320, height: 176, framerate: 20)
        let best = CameraFormat.best(of: CameraFormat.all(in: try Caps(caps), wished: model), for: model)
        let format = try #require(best)
        #expect("\(format.width)x\(format.height)" == size)
        #expect(format.rate(for: model)?.value == Double(rate))
    }
}
