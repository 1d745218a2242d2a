import RTP
import Testing
import WebRTCTransport

/// The range of the target, which the application changes while packets are sent.
@Suite struct BitrateRangeTests {
    @Test func theTargetEntersTheRangeAtOnce() {
        var controller = CongestionController(range: 100_000...3_000_000, start: 1_500_000)
        #expect(controller.setRange(100_000...800_000, now: 0)?.target == 800_000)
        #expect(controller.setRange(100_000...800_000, now: 1) == nil)
        // A wider range changes no estimate.
        #expect(controller.setRange(100_000...3_000_000, now: 2)?.target == 1_500_000)
        #expect(controller.setRange(2_000_000...3_000_000, now: 3)?.target == 2_000_000)
        #expect(controller.target.target == 2_000_000)
    }

    @Test func noValueIsTooLarge() {
        var controller = CongestionController(range: 1...2, start: 1)
        _ = controller.setRange(Int.min...Int.max, now: 0)
        #expect(controller.setRange(Int.max...Int.max, now: 1)?.target == 10_000_000_000)
    }

    @Test func withoutCongestionControlItIsTheMaximum() {
        let control = SendRateControl(range: 100_000...900_000, start: 900_000, adapts: false, ssrc: 1)
        #expect(control.setRange(100_000...400_000, now: .zero)?.target == 400_000)
        #expect(control.target.target == 400_000 && control.target.reason == .off)
        #expect(control.setRange(50_000...400_000, now: .zero) == nil)
        #expect(control.setRange(100_000...1_000_000, now: .zero)?.target == 1_000_000)
    }
}
