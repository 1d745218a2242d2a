import GStreamerKit
import MediaPipeline
import Testing
import WebRTCTransport

@Suite struct PlayoutTests {
    private static let ms: ClockTime = 1_000_000

    @Test func theLongerDelayIsCommonAsLongAsItsMediaCome() {
        let playout = Playout()
        var delays: [ClockTime] = []
        for time in stride(from: ClockTime(0), to: 12_000, by: 20) {
            if time < 2000 { playout.ready(.audio, after: 70 * Self.ms, now: time * Self.ms) }
            delays.append(playout.ready(.video, after: 10 * Self.ms, now: time * Self.ms) / Self.ms)
        }
        #expect(delays[50] == 70 && delays[200] == 70 && delays.last == 10)
        #expect(playout.promised == 100 * Self.ms)
        playout.ready(.video, after: 130 * Self.ms, now: 13_000 * Self.ms)
        for _ in 0..<60 { playout.ready(.video, after: 130 * Self.ms, now: 13_000 * Self.ms) }
        #expect(playout.delay == 130 * Self.ms && playout.promised == 200 * Self.ms)
        playout.end(.video)
        #expect(playout.delay == 0 && playout.promised == 200 * Self.ms)
    }
}
