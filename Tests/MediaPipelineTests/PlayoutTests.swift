import GStreamerKit
import MediaPipeline
import RTP
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

    @Test func aStreamBeginsWithTheOneBeforeIt() {
        let playout = Playout()
        func begin(_ kind: MediaKind, _ time: ClockTime) -> ClockTime {
            playout.begin(kind, at: time * Self.ms) / Self.ms
        }
        #expect(begin(.audio, 100) == 100 && begin(.video, 250) == 100)
        #expect(begin(.video, 400) == 400, "it begins again, behind a flush")
        playout.end(.audio)
        #expect(begin(.audio, 300) == 400, "the other one begins a little later")
        playout.end(.audio)
        #expect(begin(.audio, 1500) == 1500, "or began long ago")
        playout.reset()
        #expect(begin(.video, 2000) == 2000)
    }
}
