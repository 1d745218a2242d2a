import CommandLineOptions
import GStreamerKit
import Glibc
import Synchronization
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
                The codecs alone have the same settings and threads, a bitrate that is corrected in the same way, and in the \
                scaled row videoconvertscale in front. All run in this process, in turns; a round's ratio is without the \
                source's CPU. What the session sends has RTP and SRTP in addition.
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

            | codec, input | source | codecs alone | element | ratio | frames a second, alone and back | kbit/s, encoded alone and sent |
            |---|---|---|---|---|---|---|

            """, to: STDOUT_FILENO)
        for codec in ["h264", "vp8"] {
            for input in Self.inputs { writeAll(try measure(codec, input, standIn.url) + "\n", to: STDOUT_FILENO) }
        }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private func measure(_ codec: String, _ input: Input, _ url: String) throws -> String {
        let source = "videotestsrc is-live=true pattern=\(pattern) ! video/x-raw,\(input.caps),framerate=30/1 "
        let end = "! fakesink name=end sync=false"
        var (sources, bare, element, ratios) = (Samples(), Samples(), Samples(), Samples())
        var frames = (bare: Samples(), element: Samples())
        var bitrates = (bare: Samples(), element: Samples())
        for _ in 0..<rounds {
            let own = try cost(try Pipeline(description: source + end)).cpu
            let alone = try CodecsAlone(codec, source + input.scaler, end)
            let codecs = try cost(alone.pipeline) { _ in alone.bitrate }
            let session = try cost(
                try Pipeline(
                    description: source
                        + "! decarttransform name=element base-url=\(url) api-key=bench transport=webrtc codec=\(codec) "
                        + "width=1280 height=704 framerate=30 congestion-control=off max-bitrate=\(Clip.bitrate) "
                        + "prompt=bench " + end)
            ) { $0.child(named: "element")?.structure("stats")?["track-bitrate"]?.int ?? -1 }
            sources.add(own)
            bare.add(codecs.cpu - own)
            element.add(session.cpu - own)
            ratios.add((session.cpu - own) / (codecs.cpu - own))
            frames.bare.add(codecs.rate)
            frames.element.add(session.rate)
            bitrates.bare.add(Double(codecs.bitrate) / 1000)
            bitrates.element.add(Double(session.bitrate) / 1000)
        }
        return "| \(codec), \(input.name) | \(sources.text()) | \(bare.text()) | \(element.text()) "
            + "| \(ratios.text(2)) | "
            + "\(pair(frames.bare, frames.element)) | \(pair(bitrates.bare, bitrates.element, digits: 0)) |"
    }

    private func pair(_ bare: Samples, _ element: Samples, digits: Int = 1) -> String {
        "\(fixed(bare.median ?? .nan, digits)) / \(fixed(element.median ?? .nan, digits))"
    }

    /// Per cent of a core that the process uses while the pipeline runs, the frames a second that reach its end, and what
    /// `bitrate` then says.
    private func cost(_ pipeline: Pipeline, bitrate: (Pipeline) -> Int = { _ in 0 }) throws -> (
        cpu: Double, rate: Double, bitrate: Int
    ) {
        let count = FrameCount()
        count.watch(pipeline)
        defer { pipeline.setState(.null) }
        pipeline.setState(.playing)
        let measured = try count.measure(after: 45, seconds: seconds)
        return (measured.cpu, measured.rate, bitrate(pipeline))
    }
}

/// Encoder and decoder with the settings that the element gives them, and with its correction of the bitrate: what the
/// encoder makes is decoded too, so that the same bits are the same work.
private final class CodecsAlone: Sendable {
    let pipeline: Pipeline
    private let control: EncoderBitrate
    private let made = Mutex((bits: 0, since: ContinuousClock.Instant?.none))

    /// What the encoder has made since its first frame, bit/s.
    var bitrate: Int {
        let (bits, since) = made.withLock { $0 }
        return since.map { Int(Double(bits) / (ContinuousClock.now - $0).inSeconds) } ?? 0
    }

    init(_ codec: String, _ source: String, _ end: String) throws {
        let chain =
            codec == "h264"
            ? "x264enc name=encoder ! video/x-h264,profile=constrained-baseline,stream-format=byte-stream "
                + "! avdec_h264 name=decoder max-threads=1 "
            : "vp8enc name=encoder ! vp8dec name=decoder threads=1 "
        pipeline = try Pipeline(description: source + "! queue ! " + chain + end)
        guard let encoder = pipeline.child(named: "encoder"), let known = KnownEncoder.named(encoder.factoryName),
            let control = EncoderBitrate(encoder, known: known, corrects: true)
        else { throw BenchError("the encoder is not installed") }
        self.control = control
        known.apply(to: encoder)
        control.set(Clip.bitrate, now: .zero)
        encoder.staticPad("src")?.addProbe(.buffer) { [weak self] item in
            guard case .buffer(let frame) = item else { return .pass }
            self?.made.withLock {
                $0.bits += frame.size * 8
                $0.since = $0.since ?? .now
            }
            return .pass
        }
    }
}
