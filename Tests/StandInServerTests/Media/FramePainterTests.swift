import DecartProtocol
import StandInServer
import Synchronization
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct FramePainterTests {
    @Test func framesStayRawUntilALookIsSet() throws {
        let starts = Mutex<[Bool]>([])
        let painter = FramePainter(look: nil, carriesLatencyMarker: false) { isFirst in
            starts.withLock { $0.append(isFirst) }
        }
        let image = TestFrame.gradient()
        let before = image.planes
        try image.withFrame { painter.paint($0) }
        #expect(image.planes == before)
        painter.setLook(Look(style: .grey))
        try image.withFrame { painter.paint($0) }
        #expect(image.planes != before)
        #expect(painter.counts.painted == 2)
        #expect(painter.counts.raw == 1)
        #expect(starts.withLock { $0 } == [true, false])
    }

    @Test(arguments: LookTests.prompts)
    func theMarkerSurvivesEveryLookWhenAskedFor(prompt: String) throws {
        for carries in [true, false] {
            let painter = FramePainter(
                look: Look(prompt: prompt, imageHash: 9), carriesLatencyMarker: carries, onFrame: { _ in })
            let image = TestFrame.gradient()
            try image.withLuma { LatencyMarker.stamp(0x5ca1, onto: $0) }
            try image.withFrame { painter.paint($0) }
            let number = try image.withLuma { LatencyMarker.find(in: $0)?.number }
            if carries { #expect(number == 0x5ca1) }
            #expect(difference(image.planes, TestFrame.gradient().planes) > 8)
        }
    }

    @Test func noNumberIsInvented() throws {
        let painter = FramePainter(look: Look(style: .neon), carriesLatencyMarker: true) { _ in }
        let image = TestFrame.gradient()
        try image.withFrame { painter.paint($0) }
        #expect(try image.withLuma { LatencyMarker.find(in: $0)?.number } == nil)
    }
}
