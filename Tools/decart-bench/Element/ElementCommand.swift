import CommandLineOptions
import GStreamerKit
import Glibc
import WebRTCTransport

/// Compares the CPU of the whole element in a session with that of its encoder and decoder alone.
struct ElementCommand: Command {
    private var plugin = ""
    private var pattern = "smpte"
    private var seconds = 6
    private var rounds = 5

    static var table: OptionTable<ElementCommand> {
        .bench(
            "element",
            abstract:
                "Measures `decarttransform` against the same encoder and decoder alone, and prints a table in Markdown.",
            discussion: """
                One session with the stand-in, which returns encoded frames as they are and runs in a process of its own. \
                The codecs alone have the same settings, bitrate and threads, and in the scaled row videoconvertscale in \
                front. All run in this process, in turns; a round's ratio is without the source's CPU.
                """,
            options: [
                .value("plugin", "file", \.plugin, isRequired: true, "The plugin, libgstdecart.so."),
                .value("pattern", "pattern", \.pattern, "A pattern of videotestsrc."),
                .number("seconds", "seconds", \.seconds, in: 1...600, "Duration of one measurement."),
                .number("rounds", "number", \.rounds, in: 1...100, "Times that all take their turn."),
            ])
    }

    private struct Input {
        let name: String
        let caps: String
        let scaler: String
    }

    private static let inputs = [
        Input(
            name: "1280x704 I420, as it is sent", caps: "format=I420,width=1280,height=704,colorimetry=bt601",
            scaler: ""
        ),
        Input(
            name: "1920x1080 RGBA", caps: "format=RGBA,width=1920,height=1080",
            scaler: "! videocrop top=12 bottom=12 ! videoconvertscale "
                + "! video/x-raw,format=I420,width=1280,height=704,colorimetry=bt601,pixel-aspect-ratio=1/1 "),
    ]

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        try Plugin.load(plugin)
        let standIn = try StandInProcess(["--echo-encoded"])
        defer { standIn.end() }
        writeAll(
            """
            Machine: \(Machine.description); load average at the start: \(Machine.load). Pattern \(pattern), 30 frames a \
            second, \(Clip.bitrate / 1000) kbit/s, \(rounds) rounds of \(seconds) s. Per cent of a core, median \
            (smallest–largest); the source is subtracted in each round, and the ratio is that of a round. Goals for a frame \
            that is sent as it is: h264 1.15, vp8 1.10.

            | codec, input | source | codecs alone | element | ratio | frames a second, alone and back |
            |---|---|---|---|---|---|

            """, to: STDOUT_FILENO)
        for codec in ["h264", "vp8"] {
            for input in Self.inputs { writeAll(try measure(codec, input, standIn.url) + "\n", to: STDOUT_FILENO) }
        }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private func measure(_ codec: String, _ input: Input, _ url: String) throws -> String {
        let source = "videotestsrc is-live=true pattern=\(pattern) ! video/x-raw,\(input.caps),framerate=30/1 "
        let end = "! fakesink name=end sync=false"
        var (alone, bare, element, ratios) = (Samples(), Samples(), Samples(), Samples())
        var frames = (bare: Samples(), element: Samples())
        for _ in 0..<rounds {
            let own = try cost(try Pipeline(description: source + end)).cpu
            let codecs = try cost(bareCodecs(codec, source + input.scaler, end))
            let session = try cost(
                try Pipeline(
                    description: source
                        + "! decarttransform base-url=\(url) api-key=bench transport=webrtc codec=\(codec) width=1280 "
                        + "height=704 framerate=30 congestion-control=off max-bitrate=\(Clip.bitrate) "
                        + "prompt=bench " + end))
            alone.add(own)
            bare.add(codecs.cpu - own)
            element.add(session.cpu - own)
            ratios.add((session.cpu - own) / (codecs.cpu - own))
            frames.bare.add(codecs.rate)
            frames.element.add(session.rate)
        }
        return "| \(codec), \(input.name) | \(alone.text()) | \(bare.text()) | \(element.text()) | \(ratios.text(2)) | "
            + "\(fixed(frames.bare.median ?? .nan)) / \(fixed(frames.element.median ?? .nan)) |"
    }

    /// Encoder and decoder with the settings that the element gives them.
    private func bareCodecs(_ codec: String, _ source: String, _ end: String) throws -> Pipeline {
        let chain =
            codec == "h264"
            ? "x264enc name=encoder ! video/x-h264,profile=constrained-baseline,stream-format=byte-stream "
                + "! avdec_h264 name=decoder max-threads=1 "
            : "vp8enc name=encoder ! vp8dec name=decoder threads=1 "
        let pipeline = try Pipeline(description: source + "! queue ! " + chain + end)
        guard let encoder = pipeline.child(named: "encoder"), let known = KnownEncoder.named(encoder.factoryName) else {
            throw BenchError("the encoder is not installed")
        }
        known.apply(to: encoder)
        encoder.set(known.bitrate.name, known.bitrate.value(for: Clip.bitrate, in: 1...Int(Int32.max)))
        return pipeline
    }

    /// Per cent of a core that the process uses while the pipeline runs, and the frames a second that reach its end.
    private func cost(_ pipeline: Pipeline) throws -> (cpu: Double, rate: Double) {
        let count = FrameCount()
        count.watch(pipeline)
        defer { pipeline.setState(.null) }
        pipeline.setState(.playing)
        let measured = try count.measure(after: 45, seconds: seconds)
        return (measured.cpu, measured.rate)
    }
}
