import StandInServer
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1)))
struct FramePainterTests {
    @Test func picturesStayRawUntilALookIsSet() throws {
        let firstFrames = Atomic<Int>(0)
        let painter = FramePainter(carriesLatencyMarker: false) { firstFrames.wrappingAdd(1, ordering: .relaxed) }
        let picture = TestPicture.gradient()
        let before = picture.planes
        painter.paint(try #require(picture.frame))
        #expect(picture.planes == before)
        painter.setLook(Look(style: .grey))
        painter.paint(try #require(picture.frame))
        #expect(picture.planes != before)
        #expect(painter.frameCount == 2)
        #expect(firstFrames.load(ordering: .relaxed) == 1)
    }

    @Test(arguments: LookTests.prompts)
    func theMarkerSurvivesEveryLookWhenAskedFor(prompt: String) throws {
        for carries in [true, false] {
            let painter = FramePainter(carriesLatencyMarker: carries) {}
            painter.setLook(Look(prompt: prompt, imageHash: 9))
            let picture = TestPicture.gradient()
            LatencyMarker.stamp(0x5ca1, onto: try #require(picture.luma))
            painter.paint(try #require(picture.frame))
            let number = LatencyMarker.read(from: try #require(picture.luma))
            if carries { #expect(number == 0x5ca1) }
            #expect(difference(picture.planes, TestPicture.gradient().planes) > 8)
        }
    }

    @Test func noNumberIsInvented() throws {
        let painter = FramePainter(carriesLatencyMarker: true) {}
        painter.setLook(Look(style: .neon))
        let picture = TestPicture.gradient()
        painter.paint(try #require(picture.frame))
        #expect(LatencyMarker.read(from: try #require(picture.luma)) == nil)
    }
}
