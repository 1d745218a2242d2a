// The driver of demo.sh, on the product GStreamerKit: changes the prompt half-way, and leaves the transformed video and
// frames before and after, side by side. demo [--base-url URL] [--seconds N] [--output FOLDER] [--show]
import Foundation
import GStreamerKit

func stop(_ why: String) -> Never {
    FileHandle.standardError.write(Data("demo: \(why)\n".utf8))
    exit(1)
}

func value(of option: String) -> String? { CommandLine.arguments.drop { $0 != option }.dropFirst().first }

/// Lets the pipeline run until EOS or for this time; an error ends the program.
func run(_ pipeline: Pipeline, for seconds: Double) {
    let end = ContinuousClock.now + .seconds(seconds)
    while let message = pipeline.bus.next(timeout: max(.zero, end - .now)), message.kind != .eos {
        if message.kind == .error { stop(message.problem?.text ?? "the pipeline failed") }
    }
}

let (seconds, folder) = (Double(value(of: "--seconds") ?? "") ?? 8, value(of: "--output") ?? "demo")
let service = value(of: "--base-url").map { "base-url=\($0) api-key=demo" } ?? ""
let shows = CommandLine.arguments.contains("--show")
let end = shows ? "autovideosink" : "vp8enc deadline=1 ! webmmux ! filesink location=\(folder)/transformed.webm"
GStreamerRuntime.initialise()
let pipeline = try Pipeline(
    description: """
        videotestsrc is-live=true horizontal-speed=8 ! video/x-raw,width=1280,height=704,framerate=22/1 ! tee name=before
        before. ! queue ! decarttransform name=decart timestamps=capture \(service) ! tee name=after
        after. ! queue ! videoconvert ! \(end)
        before. ! queue max-size-bytes=0 max-size-buffers=0 max-size-time=3000000000 ! both.sink_0 after. ! queue ! both.sink_1
        compositor name=both sink_1::xpos=1280 ! video/x-raw,width=2560,height=704,framerate=2/1
            ! videoscale ! videoconvert ! video/x-raw,width=1280,height=352 ! pngenc ! fakesink name=png sync=false
        """)
guard let decart = pipeline.child(named: "decart"), let png = pipeline.child(named: "png") else { exit(1) }
for (number, prompt) in [(1, "Lego World"), (2, "Cyberpunk city")] {
    decart.set("prompt", prompt)
    print("prompt: \(prompt)")
    pipeline.setState(.playing)
    run(pipeline, for: seconds / 2)
    guard !shows, let image = png.value("last-sample")?.sample?.buffer else { continue }
    try image.withBytes { try Data($0).write(to: URL(fileURLWithPath: "\(folder)/before-after-\(number).png")) }
}
let stats = decart.structure("stats")
func time(_ field: String) -> String { "\(max(0, stats?.int(field) ?? 0) / 1_000_000) ms" }
guard let count = stats?.int("frames-received"), count > 0 else { stop("no frame came back in \(seconds) s") }
pipeline.send(.eos())
run(pipeline, for: 10)
pipeline.setState(.null)
print("first transformed frame:  after \(time("time-to-first-frame")); \(count) frames returned")
print("latency, in to out:       \(time("glass-to-glass-p50")) median, \(time("glass-to-glass-p90")) p90")
