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
        var sight = MotionMeter.Sight()
        for (index, frame) in frames.enumerated() { meter.add(frame, video, now: step * index, to: &sight) }
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
        var sight = MotionMeter.Sight()
        meter.add(frame(), try video(width: 8, height: 8), now: .zero, to: &sight)
        meter.add(frame(), try video(width: 640, height: 480), now: .seconds(1), to: &sight)
        #expect(meter.counts == MotionMeter.Counts())
    }

    @Test func eachStreamIsComparedWithItself() throws {
        let (meter, video) = (MotionMeter(tolerance: 4), try video())
        var sights = (MotionMeter.Sight(), MotionMeter.Sight())
        for second in 0..<5 {
            meter.add(frame(100), video, now: .seconds(second), to: &sights.0)
            meter.add(frame(200), video, now: .seconds(second), to: &sights.1)
        }
        #expect((meter.counts.frames, meter.counts.changes) == (10, 2), "the first frame of each")
    }
}
