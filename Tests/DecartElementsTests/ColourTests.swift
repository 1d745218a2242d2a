import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// The way there and back keeps colours, whatever matrix and range the input has.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct ColourTests {
        /// range:matrix:transfer:primaries, as GStreamer's caps write them.
        @Test(arguments: ["bt601", "bt709", "1:4:7:1", "1:3:5:1"])
        func barsComeBackInTheirColours(colorimetry: String) throws {
            let bars = "videotestsrc pattern=smpte75 is-live=true ! video/x-raw,format=RGB,\(TransformPipeline.size),framerate=20/1"
            let input = try rgb(bars.replacing("is-live=true", with: "num-buffers=1"))
            try StandIn.run { standIn in
                let received = Watched<[UInt8]?>(nil)
                let source = bars + " ! videoconvert ! video/x-raw,format=I420,colorimetry=(string)\(colorimetry)"
                try TransformPipeline.run(
                    try .init(standIn, source: source, downstream: "videoconvert ! video/x-raw,format=RGB")
                ) { pipeline in
                    var count = 0
                    pipeline.sink.addProbe(.buffer) { item in
                        count += 1
                        // The encoder needs some frames to get a still picture right.
                        if count >= 15, case .buffer(let buffer) = item {
                            received.change { $0 = $0 ?? buffer.withBytes { Array($0) } }
                        }
                        return .pass
                    }
                    pipeline.play()
                    #expect(received.wait(seconds: 20) { $0 != nil })
                    #expect(pipeline.current.latest?.caps.contains("colorimetry") == true)
                }
                let output = try #require(received.value)
                for bar in 0..<7 {
                    let before = centre(input, bar)
                    let after = centre(output, bar)
                    for (one, other) in zip(before, after) { #expect(abs(one - other) <= 3, "bar \(bar): \(before) is \(after)") }
                }
            }
        }

        /// Mean colour in the middle of one of the seven upper bars; rows of 320 RGB pixels need no padding.
        private func centre(_ rgb: [UInt8], _ bar: Int) -> [Double] {
            let (width, height) = (TransformPipeline.width, TransformPipeline.height)
            let x = (2 * bar + 1) * width / 14
            return (0..<3).map { channel in
                var sum = 0
                for row in (height / 3 - 4)...(height / 3 + 4) {
                    for column in (x - 4)...(x + 4) { sum += Int(rgb[(row * width + column) * 3 + channel]) }
                }
                return Double(sum) / 81
            }
        }

        private func rgb(_ description: String) throws -> [UInt8] {
            try #require(ElementTests.isReady)
            let pipeline = try Pipeline(description: description + " ! fakesink name=out")
            defer { pipeline.setState(.null) }
            let bytes = Watched<[UInt8]?>(nil)
            try #require(pipeline.child(named: "out")?.staticPad("sink")).addProbe(.buffer) { item in
                if case .buffer(let buffer) = item { bytes.change { $0 = $0 ?? buffer.withBytes { Array($0) } } }
                return .pass
            }
            pipeline.setState(.playing)
            #expect(bytes.wait(seconds: 10) { $0 != nil })
            return try #require(bytes.value)
        }
    }
}
