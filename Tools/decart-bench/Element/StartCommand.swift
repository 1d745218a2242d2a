import CommandLineOptions
import GStreamerKit
import Glibc

/// Measures how long a whole element takes from PLAYING to the first transformed frame.
struct StartCommand: Command {
    private var plugin = ""
    private var rounds = 15
    private static let processes = 5

    static var table: OptionTable<StartCommand> {
        .bench(
            "start",
            abstract:
                "Measures `decarttransform` from PLAYING to its first transformed frame, and prints a table in Markdown.",
            discussion: """
                The input is 1280x704 at 30 frames a second. The stand-in decodes, transforms and encodes it in a process \
                of its own. The phases are those of the element's `stats`; what they leave is the offer and the answer, and \
                in a room its signalling.
                """,
            options: [
                .value("plugin", "file", \.plugin, isRequired: true, "The plugin, libgstdecart.so."),
                .number(
                    "rounds", "number", \.rounds, in: 1...1000, "Sessions on each transport, behind a first one."),
            ])
    }

    private static let phases: [(title: String, field: String)] = [
        ("TCP", "connect-open-time"), ("WebSocket", "connect-upgrade-time"), ("prompt", "connect-ack-time"),
        ("ICE", "connect-ice-time"), ("DTLS", "connect-dtls-time"), ("connected", "connect-time"),
        ("frame decoded", "time-to-first-frame"),
    ]

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        try Plugin.load(plugin)
        let standIn = try StandInProcess()
        defer { standIn.end() }
        let titles = Self.phases.map(\.title).joined(separator: " | ")
        writeAll(
            """
            Machine: \(Machine.description); load average at the start: \(Machine.load). ms, median (smallest–largest) of \
            \(rounds) sessions; "connected" and "frame decoded" count from the start of the attempt, the last columns from \
            the change from READY to PLAYING. The first sessions are those of \(Self.processes) processes, with a stand-in \
            that has served one. Goals: first frame in a room 90 ms, ratio 1.3.

            | transport, codec | \(titles) | **first frame** | of a process's first session | ratio |
            |---|\(String(repeating: "---|", count: Self.phases.count + 3))

            """, to: STDOUT_FILENO)
        for (transport, codec) in [("livekit", "h264"), ("webrtc", "vp8")] {
            writeAll(try measure(transport, codec, standIn.url) + "\n", to: STDOUT_FILENO)
        }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private func measure(_ transport: String, _ codec: String, _ url: String) throws -> String {
        var (phases, total) = (Self.phases.map { _ in Samples() }, Samples())
        var first = Samples()
        for index in 0...Self.processes {
            let status = try Child.run([
                "measure", "start", "--plugin", plugin, "--transport", transport, "--codec", codec, "--url", url,
            ]) { line in
                // The first process prepares the stand-in.
                if index > 0, let time = line.split(separator: " ").last.flatMap({ Double($0) }) { first.add(time) }
            }
            guard status == 0 else { throw BenchError("the first session of a process failed") }
        }
        _ = try Self.start(transport, codec, url)
        for _ in 0..<rounds {
            let session = try Self.start(transport, codec, url)
            total.add(session.total)
            for (index, value) in session.phases.enumerated() { phases[index].add(value) }
        }
        let cells = phases.map { $0.text() }.joined(separator: " | ")
        return "| \(transport), \(codec) | \(cells) | \(total.text()) | \(first.text()) | "
            + "\(ratio(first.median, total.median)) |"
    }

    static func start(_ transport: String, _ codec: String, _ url: String) throws -> (total: Double, phases: [Double]) {
        let pipeline = try Pipeline(
            description: "videotestsrc is-live=true ! video/x-raw,format=I420,width=1280,height=704,framerate=30/1 "
                + "! decarttransform name=element base-url=\(url) api-key=bench transport=\(transport) codec=\(codec) "
                + "prompt=bench fallback=none ! fakesink name=end sync=false")
        let count = FrameCount()
        count.watch(pipeline, countsGaps: false)
        defer { pipeline.setState(.null) }
        // NULL to READY loads what a process needs once; `MeasureCommand.loadPlugin` measures that.
        pipeline.setState(.ready)
        let begun = ContinuousClock.now
        pipeline.setState(.playing)
        while count.now == 0 {
            guard .now - begun < .seconds(20) else { throw BenchError("no frame came within 20 s") }
            usleep(200)
        }
        let total = (ContinuousClock.now - begun).milliseconds
        let stats = pipeline.child(named: "element")?.structure("stats")
        return (total, phases.map { Double(stats?[$0.field]?.int ?? -1) / 1e6 })
    }
}
