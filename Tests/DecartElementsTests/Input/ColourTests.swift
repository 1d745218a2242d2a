import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// A round trip keeps colours, whatever matrix and range the input has.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct ColourTests {
        /// Mapping between samples and colours as ITU-R BT.601 and BT.709 define it. videoconvert is no reference: its
        /// fast paths are off by up to 5 code values.
        struct Encoding: Sendable, CustomTestStringConvertible {
            let colorimetry: String
            let red: Double
            let blue: Double
            let isFullRange: Bool
            var testDescription: String { colorimetry }

            static let limited601 = Encoding(colorimetry: "bt601", red: 0.299, blue: 0.114, isFullRange: false)
            static let all = [
                limited601, Encoding(colorimetry: "bt709", red: 0.2126, blue: 0.0722, isFullRange: false),
                Encoding(colorimetry: "1:4:7:1", red: 0.299, blue: 0.114, isFullRange: true),
                Encoding(colorimetry: "1:3:5:1", red: 0.2126, blue: 0.0722, isFullRange: true),
            ]

            /// R, G and B, each 0...255.
            func rgb(_ sample: (luma: Double, blue: Double, red: Double)) -> [Double] {
                let y = isFullRange ? sample.luma : (sample.luma - 16) * 255 / 219
                let scale = isFullRange ? 1 : 255.0 / 224
                let (cb, cr) = ((sample.blue - 128) * scale, (sample.red - 128) * scale)
                let r = y + 2 * (1 - red) * cr
                let b = y + 2 * (1 - blue) * cb
                let g = (y - red * r - blue * b) / (1 - red - blue)
                return [r, g, b].map { min(max($0, 0), 255) }
            }
        }

        /// Largest accepted error of a bar's mean, code values.
        private static let limit = 3.0

        @Test(arguments: Encoding.all) func barsComeBackInTheirColours(encoding: Encoding) throws {
            let source = """
                videotestsrc pattern=smpte75 is-live=true ! video/x-raw,format=RGB,\(TransformPipeline.size),framerate=20/1 \
                ! videoconvert ! video/x-raw,format=I420,colorimetry=(string)\(encoding.colorimetry)
                """
            try TransformPipeline.runWell(with: { try .init($0, source: source) }) { pipeline, _ in
                let input = Watched<CopiedFrame?>(nil)
                var video: VideoInfo?
                try #require(pipeline.transform.staticPad("sink")).addProbe([.buffer, .downstreamEvent]) { item in
                    switch item {
                    case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
                    case .buffer(let buffer): if let video { input.change { $0 = $0 ?? CopiedFrame(buffer, video) } }
                    case .query: break
                    }
                    return .pass
                }
                pipeline.play()
                // The encoder needs some frames to converge on a still frame.
                #expect(pipeline.waitForFrames(15))
                let frame = try #require(pipeline.current.latest)
                #expect(frame.caps.contains("colorimetry=(string)bt601"))
                let before = try #require(input.value)
                for bar in 0..<7 {
                    let x = Double(2 * bar + 1) / 14
                    let given = encoding.rgb(before.mean(x: x, y: 0.33))
                    let shown = Encoding.limited601.rgb(frame.image.mean(x: x, y: 0.33))
                    let error = zip(given, shown).map { abs($0.rounded() - $1.rounded()) }.max() ?? 0
                    #expect(error <= Self.limit, "bar \(bar): \(given) is \(shown)")
                }
            }
        }
    }
}
