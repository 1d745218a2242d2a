import GStreamerKit
import MediaPipeline
import Testing

@Suite struct FlowDutyTests {
    /// The whole table; a new flow return or pad does not compile here without a duty of its own.
    private func expected(_ flow: FlowReturn, _ pad: OutputPad) -> FlowDuty {
        switch (pad, flow) {
        case (_, .ok): .goOn
        case (.preview, _): .tryAgain
        case (_, .flushing): .tryAgain
        case (_, .eos): .end
        case (.audio, .notLinked): .tryAgain
        case (.video, .notLinked), (_, .notNegotiated), (_, .error): .fail
        }
    }

    @Test(arguments: OutputPad.allCases) func eachFlowReturnHasItsDuty(_ pad: OutputPad) {
        for raw in -5...0 {
            guard let flow = FlowReturn(rawValue: Int32(raw)) else {
                Issue.record("no flow return \(raw)")
                continue
            }
            #expect(FlowDuty(flow, of: pad) == expected(flow, pad), "\(flow) of \(pad)")
        }
    }

    @Test func aConsumerOfThePreviewNeverStopsTheCamera() {
        for flow in [FlowReturn.eos, .error, .notNegotiated, .notLinked, .flushing] {
            #expect(FlowDuty(flow, of: .preview) == .tryAgain)
        }
    }
}
