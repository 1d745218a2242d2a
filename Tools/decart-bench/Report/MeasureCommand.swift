import CommandLineOptions
import Dispatch
import GStreamerKit
import Glibc

/// Runs one measurement in its own process; prints the results as lines "name value".
struct MeasureCommand: Command {
    enum Subject: String, CaseIterable, OptionValue {
        case connect, load, many, floor, latency, cycles, plugin, start
    }

    private var subject = Subject.connect
    private var implementation = Implementation.ours
    private var far = Implementation.ours
    private var sessions = 1
    private var seconds = 6
    private var cycles = 50
    private var clip: String?
    private var plugin = ""
    private var transport = ""
    private var codec = ""
    private var url = ""

    static var table: OptionTable<MeasureCommand> {
        .bench(
            "measure", abstract: "One measurement; started by the main command.",
            options: [
                .value("implementation", "implementation", \.implementation, "Implementation that is measured."),
                .value("far", "implementation", \.far, "Implementation of the remote peer."),
                .number("sessions", "number", \.sessions, in: 1...1000, "Sessions in the process."),
                .number("seconds", "seconds", \.seconds, in: 1...600, "Duration of the measurement."),
                .number("cycles", "number", \.cycles, in: 1...10_000, "Connect/stream/stop cycles."),
                .value("clip", "file", \.clip, "Encoded frames; without it they are encoded first."),
                .value("plugin", "file", \.plugin, "The plugin, libgstdecart.so."),
                .value("transport", "way", \.transport, "The element's transport."),
                .value("codec", "codec", \.codec, "The element's codec."),
                .value("url", "url", \.url, "The element's base-url."),
            ],
            positional: .argument("subject", \.subject, "What is measured: \(Subject.choices.joined(separator: ", ")).")
        )
    }

    func run() throws {
        // webrtcbin can block for good while it stops. The report then continues without this measurement.
        alarm(600)
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        switch subject {
        case .connect: try connect()
        case .load: try load()
        case .many: try many()
        case .floor: report("cpu", try PacketFloor.measure())
        case .latency: try latency()
        case .cycles: try runCycles()
        case .plugin: try loadPlugin()
        case .start:
            try Plugin.load(plugin)
            report("first", try StartCommand.start(transport, codec, url).total)
        }
    }

    private func report(_ name: String, _ value: Double) { writeAll("\(name) \(fixed(value, 4))\n", to: STDOUT_FILENO) }

    private func storedClip() throws -> Clip { try clip.map { try Clip(contentsOf: $0) } ?? Clip(encoding: 120) }

    // MARK: Time to connected and to the first frame

    private func connect() throws {
        let far = try FarSide(far)
        defer { far.end() }
        let pattern = TestPattern()
        for index in 0..<sessions {
            let near = try NearCall(implementation, far: far, sending: .frames(pattern), receiving: .decode)
            defer { near.stop() }
            try near.progress.waitForFrames(3)
            // Report the first call separately: it loads libraries and allocates memory.
            let prefix = index == 0 ? "first-" : ""
            for (name, step) in [
                ("answered", CallProgress.Step.answered), ("ice", .ice), ("connected", .connected),
                ("frame", .firstFrame),
            ] {
                if let time = near.progress.time(step) { report(prefix + name, time.milliseconds) }
            }
        }
    }

    // MARK: CPU, threads, descriptors, memory

    private func load() throws {
        let clip = try storedClip()
        let before = ProcessStatistics.now()
        if implementation == .none {
            let sources = try (0..<sessions).map { _ in try SourceOnly(clip) }
            defer { for source in sources { source.stop() } }
            try measureLoad(since: before, frames: { 0 })
            return
        }
        let far = try FarSide(far)
        defer { far.end() }
        let calls = try (0..<sessions).map { _ in
            let near = try NearCall(implementation, far: far, sending: .clip(clip), receiving: .discard)
            try near.waitUntilFlowing(1)
            return near
        }
        defer { for near in calls { near.stop() } }
        try measureLoad(since: before) { calls.reduce(0) { $0 + $1.progress.frames } }
    }

    // MARK: Delay with many sessions

    /// Compares the delay of each frame of the clip with that of the same frame in a session that is alone.
    private func many() throws {
        let clip = try storedClip()
        let far = try FarSide(far)
        defer { far.end() }
        var calls: [NearCall] = []
        defer { for near in calls { near.stop() } }
        func add() throws {
            let near = try NearCall(implementation, far: far, sending: .clip(clip), receiving: .discard)
            calls.append(near)
            try near.waitUntilFlowing(1)
        }
        /// The frames of all calls during the whole clip, twice at least.
        func watch() -> (sent: Int, delays: [CallProgress.Delay]) {
            // The bitrate target begins below the clip's bitrate.
            pause(.milliseconds(1500))
            let before = calls.reduce(0) { $0 + $1.progress.framesSent }
            for near in calls { _ = near.progress.takeDelays() }
            pause(.seconds(max(seconds, 2 * clip.frames.count / 30 + 1)))
            let delays = calls.flatMap { $0.progress.takeDelays() }
            return (calls.reduce(0) { $0 + $1.progress.framesSent } - before, delays)
        }
        try add()
        let alone = Dictionary(grouping: watch().delays, by: \.frame)
            .compactMapValues { Samples($0.map(\.milliseconds)).median }
        while calls.count < sessions { try add() }
        let start = ProcessStatistics.now()
        let (sent, delays) = watch()
        let end = ProcessStatistics.now()
        report("cpu", (end.cpu - start.cpu).inSeconds / (end.wall - start.wall).inSeconds * 60 / Double(sessions))
        let inTime = delays.count { delay in alone[delay.frame].map { delay.milliseconds <= $0 + 20 } ?? false }
        let samples = Samples(delays.map(\.milliseconds))
        report("p50", samples.percentile(50) ?? .nan)
        report("p99", samples.percentile(99) ?? .nan)
        report("returned", Double(delays.count) / Double(max(1, sent)) * 100)
        report("in-time", Double(inTime) / Double(max(1, sent)) * 100)
    }

    private func measureLoad(since before: ProcessStatistics, frames: () -> Int) throws {
        pause(.milliseconds(1500))
        let start = ProcessStatistics.now()
        let framesBefore = frames()
        pause(.seconds(seconds))
        let end = ProcessStatistics.now()
        let elapsed = (end.wall - start.wall).inSeconds
        let count = Double(sessions)
        report("cpu", (end.cpu - start.cpu).inSeconds / elapsed * 60 / count)
        report("fps", Double(frames() - framesBefore) / elapsed / count)
        report("threads", Double(end.threads))
        report("fds", Double(end.descriptors))
        report("rss", Double(end.residentKilobytes))
        report("rss-before", Double(before.residentKilobytes))
    }

    // MARK: Latency

    private func latency() throws {
        let far = try FarSide(far)
        defer { far.end() }
        let near = try NearCall(implementation, far: far, sending: .frames(TestPattern()), receiving: .decode)
        defer { near.stop() }
        try near.waitUntilFlowing(30)
        _ = near.progress.takeDelays()
        pause(.seconds(seconds))
        let delays = Samples(near.progress.takeDelays().map(\.milliseconds))
        report("p50", delays.percentile(50) ?? .nan)
        report("p95", delays.percentile(95) ?? .nan)
        report("fps", Double(delays.values.count) / Double(seconds))
    }

    // MARK: The plugin

    /// Loads the plugin, and sets its first element to READY, which loads codecs and libsrtp's crypto library.
    private func loadPlugin() throws {
        let before = ProcessStatistics.now().residentKilobytes
        let clock = ContinuousClock()
        report("load", try clock.measure { try Plugin.load(plugin) }.milliseconds)
        report("rss", Double(ProcessStatistics.now().residentKilobytes - before))
        let element = try Element(factory: "decarttransform")
        defer { element.setState(.null) }
        report("ready", clock.measure { element.setState(.ready) }.milliseconds)
    }

    // MARK: Growth

    private func runCycles() throws {
        let clip = try storedClip()
        let far = try FarSide(far)
        defer { far.end() }
        var slowestStop = 0.0
        let step = max(1, cycles / 5)
        for cycle in 1...max(1, cycles) {
            let near = try NearCall(implementation, far: far, sending: .clip(clip), receiving: .discard)
            try near.waitUntilFlowing(5)
            let begun = ContinuousClock.now
            near.stop()
            slowestStop = max(slowestStop, (.now - begun).milliseconds)
            if cycle % step == 0 {
                // Closing continues on the network threads after `stop` returns.
                pause(.milliseconds(300))
                let statistics = ProcessStatistics.now()
                report("rss", Double(statistics.residentKilobytes))
                report("fds", Double(statistics.descriptors))
                report("threads", Double(statistics.threads))
            }
        }
        report("slowest-stop", slowestStop)
    }
}
