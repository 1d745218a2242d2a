import CommandLineOptions
import GStreamerKit
import Glibc

/// Measures whole elements whose input and output stay encoded.
struct EncodedCommand: Command {
    private var plugin = ""
    private var sessions = 16
    private var seconds = 8
    private var rounds = 3
    private var usesRooms = false
    private var usesTwo = false

    static var table: OptionTable<EncodedCommand> {
        .bench(
            "encoded",
            abstract:
                "Measures sessions of `decarttransform` that take VP8 and give VP8, and prints a table in Markdown.",
            discussion: """
                The input is 1280x720 at 30 frames a second and 2.5 Mbit/s, encoded beforehand. The stand-in returns \
                encoded frames as they are and runs in a process of its own; the figures are those of the client's process.
                """,
            options: [
                .value("plugin", "file", \.plugin, isRequired: true, "The plugin, libgstdecart.so."),
                .number("sessions", "number", \.sessions, in: 1...200, "Sessions in the process."),
                .number("seconds", "seconds", \.seconds, in: 1...600, "Duration of one measurement."),
                .number("rounds", "number", \.rounds, in: 1...100, "Times that all is measured."),
                .flag("rooms", \.usesRooms, "Sessions in rooms instead of direct connections."),
                .flag("two-connections", \.usesTwo, "Rooms take two peer connections only."),
            ])
    }

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        try Plugin.load(plugin)
        let clip = try Clip(encoding: 120)
        let standIn = try StandInProcess(["--echo-encoded"] + (usesTwo ? ["--no-single-connection"] : []))
        defer { standIn.end() }
        var (source, all, rate) = (Samples(), Samples(), Samples())
        var process = ProcessStatistics.now()
        let before = process
        for _ in 0..<rounds {
            source.add(try measure(clip, "identity").cpu)
            let element = try measure(
                clip,
                "decarttransform base-url=\(standIn.url) api-key=bench transport=\(transport) codec=vp8 width=1280 height=720 "
                    + "framerate=30 congestion-control=off prompt=bench ! video/x-vp8")
            all.add(element.cpu)
            rate.add(element.rate)
            process = element.process
        }
        func share(_ field: KeyPath<ProcessStatistics, Int>, _ unit: Double = 1) -> String {
            fixed(Double(process[keyPath: field] - before[keyPath: field]) / Double(sessions) / unit)
        }
        writeAll(
            """
            Machine: \(Machine.description); load average at the end: \(Machine.load). \(sessions) sessions, \(rounds) rounds \
            of \(seconds) s; median (smallest–largest). Goals for 16: 15 % with the sources; 2 threads, 7 descriptors, 2 MB.

            | CPU of the process, % of a core | of the sources alone | frames a second back, each session | threads, descriptors, \
            RSS (MB) of a session |
            |---|---|---|---|
            | \(all.text()) | \(source.text()) | \(rate.text()) | \(share(\.threads)), \(share(\.descriptors)), \
            \(share(\.residentKilobytes, 1024)) |

            """, to: STDOUT_FILENO)
    }

    private var transport: String { usesRooms || usesTwo ? "livekit" : "webrtc" }

    /// Runs all sessions with this chain between source and sink.
    /// - Returns: per cent of a core, and the frames a second that reach the end of one session.
    private func measure(_ clip: Clip, _ chain: String) throws -> (
        cpu: Double, rate: Double, process: ProcessStatistics
    ) {
        let count = FrameCount()
        let runs = try (0..<sessions).map { _ in try Run(clip, chain, count) }
        defer { for run in runs { run.stop() } }
        let measured = try count.measure(after: 45 * sessions, seconds: seconds)
        return (measured.cpu, measured.rate / Double(sessions), measured.process)
    }

    /// The clip through one chain of elements.
    private final class Run {
        private let pipeline: Pipeline
        private let source: PacedSource

        init(_ clip: Clip, _ chain: String, _ count: FrameCount) throws {
            pipeline = try Pipeline(
                description: "identity name=begin ! \(chain) ! fakesink name=end sync=false async=false")
            source = PacedSource(caps: Clip.caps, pipeline: pipeline, next: clip.player())
            count.watch(pipeline)
            pipeline.setState(.playing)
            if let pad = pipeline.child(named: "begin")?.staticPad("sink") { try source.pad.link(pad) }
            try source.start()
        }

        func stop() {
            pipeline.setState(.null)
            source.stop()
        }
    }
}
