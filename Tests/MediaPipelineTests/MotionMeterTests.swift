import GStreamerKit
import MediaPipeline
import Testing

@Suite struct MotionMeterTests {
    init() { GStreamerRuntime.initialise() }

    private func video(width: Int = 64, height: Int = 48) throws -> VideoInfo {
        try #require(VideoInfo(caps: Caps("video/x-raw,format=I420,width=\(width),height=\(height),framerate=30/1")))
    }

    /// A grey frame, with a square of another luma.
    private func frame(_ luma: UInt8 = 100, square: UInt8? = nil) -> Buffer {
        var bytes = [UInt8](repeating: luma, count: 64 * 48 * 3 / 2)
        if let square { for row in 8..<20 { for column in 8..<24 { bytes[row * 64 + column] = square } } }
        return bytes.withUnsafeBytes(Buffer.init(copying:))
    }

    private func count(_ frames: [Buffer], tolerance: Int = 4, every step: Duration = .milliseconds(300)) throws
        -> MotionMeter.Counts
    {
        let (meter, video) = (MotionMeter(tolerance: tolerance), try video())
        for (index, frame) in frames.enumerated() { meter.add(frame, video, now: step * index) }
        return meter.counts
    }

    @Test func countsFramesThatDiffer() throws {
        let counts = try count([frame(), frame(), frame(square: 160), frame(square: 160), frame()])
        #expect((counts.frames, counts.changes) == (5, 3), "the first one, the square, and its end")
    }

    @Test func noiseIsNoChangeAndADriftIs() throws {
        #expect(try count([frame(100), frame(103), frame(98), frame(104)]).changes == 1)
        #expect(try count([frame(100), frame(103), frame(106), frame(109), frame(112)]).changes == 3)
    }

    @Test func looksFourTimesASecond() throws {
        let counts = try count((0..<100).map { frame(UInt8(50 + $0)) }, every: .milliseconds(40))
        #expect(counts.frames == 15)
    }

    @Test func framesThatAreTooSmallOrDamagedAreNotCounted() throws {
        let meter = MotionMeter(tolerance: 1)
        meter.add(frame(), try video(width: 8, height: 8), now: .zero)
        meter.add(frame(), try video(width: 640, height: 480), now: .seconds(1))
        #expect(meter.counts == MotionMeter.Counts())
    }
}
