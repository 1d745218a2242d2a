import Glibc

/// The measurements, their order and their tables.
struct Plan {
    let quick: Bool
    let cycles: Int
    let clip: String

    /// What a measurement runs with.
    private struct Setup: Hashable {
        var implementation = Implementation.ours
        var far = Implementation.ours
        var sessions = 1
    }

    /// The values of a measurement, by the names that its process reports.
    private typealias Measurements = [Setup: [String: Samples]]

    private static let compared = [Implementation.ours, .webrtcbin]
    private static let resources = [("threads", "threads", 1.0), ("fds", "fds", 1.0), ("RSS, MB", "rss", 1024.0)]

    /// Measures all setups in turns; adds a sentence to `problems` for each measurement that fails.
    private func measure(
        _ subject: String, _ setups: [Setup], rounds: Int = 1, _ more: [String] = [], problems: inout [String]
    ) -> Measurements {
        var measurements: Measurements = [:]
        for _ in 0..<rounds {
            for setup in setups {
                let arguments =
                    [
                        "measure", subject, "--implementation", setup.implementation.rawValue, "--far",
                        setup.far.rawValue, "--sessions", "\(setup.sessions)",
                    ] + more
                do {
                    let status = try Child.run(arguments) { line in
                        let parts = line.split(separator: " ")
                        guard parts.count == 2, let value = Double(parts[1]) else { return }
                        measurements[setup, default: [:]][String(parts[0]), default: Samples()].add(value)
                    }
                    if status != 0 { problems.append("`\(arguments.joined(separator: " "))` ended with \(status)") }
                } catch { problems.append("\(error)") }
            }
        }
        return measurements
    }

    /// - Parameter plugin: File of the plugin whose element is measured; nil leaves those parts out.
    func section(_ part: RunCommand.Part, plugin: String?) -> String {
        switch part {
        case .plugin: loading(of: plugin)
        case .connect: connect()
        case .start:
            report("From PLAYING to the first transformed frame", "start", plugin, rounds: quick ? "5" : "15")
        case .load: load()
        case .many: manySessions()
        case .latency: latency()
        case .growth: growth()
        case .element: report("Element against its codecs", "element", plugin, rounds: quick ? "2" : "5")
        case .encoded: report("Encoded in, encoded out", "encoded", plugin, rounds: quick ? "1" : "3")
        }
    }

    private var rounds: Int { quick ? 1 : 3 }

    /// The report of a command that needs the plugin, which runs in a process of its own, under a heading.
    private func report(_ title: String, _ command: String, _ plugin: String?, rounds: String) -> String {
        guard let plugin else { return "## \(title)\n\nLeft out: no `--plugin`.\n" }
        let arguments = [command, "--plugin", plugin, "--rounds", rounds]
        var lines = ["## \(title)", "", "`decart-bench \(arguments.joined(separator: " "))`", ""]
        do {
            let status = try Child.run(arguments) { lines.append(String($0)) }
            if status != 0 { lines.append("It ended with \(status).") }
        } catch { lines.append("\(error)") }
        return lines.joined(separator: "\n") + "\n"
    }

    private func table(_ header: [String], _ rows: [[String]]) -> String {
        var lines = [
            "| " + header.joined(separator: " | ") + " |", "|" + String(repeating: "---|", count: header.count),
        ]
        lines += rows.map { "| " + $0.joined(separator: " | ") + " |" }
        return lines.joined(separator: "\n") + "\n"
    }

    private func notes(_ problems: [String]) -> String { problems.map { "\n\($0)\n" }.joined() }

    // MARK: Connect

    private func connect() -> String {
        var problems: [String] = []
        let setups = Self.compared.flatMap { far in
            Self.compared.map { Setup(implementation: $0, far: far, sessions: quick ? 4 : 8) }
        }
        let measured = measure("connect", setups, rounds: rounds, problems: &problems)
        var rows: [[String]] = []
        for far in Self.compared {
            for (title, name) in [
                ("answer received", "answered"), ("ICE connected", "ice"), ("**connected** (DTLS done)", "connected"),
                ("**first decoded frame** back", "frame"), ("connected, first session of a process", "first-connected"),
            ] {
                let samples = setups.filter { $0.far == far }.map { measured[$0]?[name] ?? Samples() }
                rows.append(
                    [far.rawValue, title] + samples.map { $0.text() } + [ratio(samples[0].median, samples[1].median)]
                        + [far == .webrtcbin && name == "frame" ? "95" : ""])
            }
        }
        return """
            ## From start to connected and to the first decoded frame

            ms since the local transport was requested; 720p30 live video is encoded, echoed by the remote peer's \
            process without decoding, and decoded. Median (smallest–largest). Each line includes the time of the lines \
            before it.

            \(table(["remote peer", "until", "ours", "webrtcbin", "ours / webrtcbin", "goal"], rows))\(notes(problems))
            """
    }

    // MARK: Load

    private func load() -> String {
        let counts = quick ? [1, 4] : [1, 4, 16]
        var problems: [String] = []
        let setups = counts.flatMap { count in
            Implementation.allCases.map { Setup(implementation: $0, sessions: count) }
        }
        let measured = measure(
            "load", setups, rounds: rounds, ["--seconds", quick ? "4" : "5", "--clip", clip], problems: &problems)
        let floor =
            measure("floor", [Setup()], rounds: rounds, problems: &problems)[Setup()]?["cpu"] ?? Samples()
        func sample(_ implementation: Implementation, _ count: Int, _ name: String) -> Samples {
            measured[Setup(implementation: implementation, sessions: count)]?[name] ?? Samples()
        }
        func net(_ implementation: Implementation, _ count: Int, _ name: String, per unit: Double) -> Double? {
            guard let value = sample(implementation, count, name).median, let base = sample(.none, count, name).median
            else { return nil }
            return (value - base) / unit
        }
        var cpu: [[String]] = []
        var rest: [[String]] = []
        for count in counts {
            let ours = net(.ours, count, "cpu", per: 1)
            let theirs = net(.webrtcbin, count, "cpu", per: 1)
            cpu.append([
                "\(count)", sample(.ours, count, "cpu").text(2), sample(.webrtcbin, count, "cpu").text(2),
                sample(.none, count, "cpu").text(2), fixed(ours ?? .nan, 2), fixed(theirs ?? .nan, 2),
                ratio(ours, theirs), ratio(ours, floor.median), [1: "5", 16: "3"][count] ?? "",
                "\(sample(.ours, count, "fps").text(1)) / \(sample(.webrtcbin, count, "fps").text(1))",
            ])
            for (title, name, unit) in Self.resources {
                let unitOfAll = Double(count) * unit
                let ours = net(.ours, count, name, per: unitOfAll)
                let theirs = net(.webrtcbin, count, name, per: unitOfAll)
                rest.append([
                    title, "\(count)", fixed(ours ?? .nan, 1), fixed(theirs ?? .nan, 1), ratio(ours, theirs),
                    fixed((sample(.ours, count, name).median ?? .nan) / unit, 0),
                    fixed((sample(.webrtcbin, count, name).median ?? .nan) / unit, 0),
                    fixed((sample(.none, count, name).median ?? .nan) / unit, 0),
                ])
            }
        }
        if counts.contains(4), counts.contains(16) {
            for (title, name, unit) in Self.resources {
                func further(_ implementation: Implementation) -> Double? {
                    guard let many = net(implementation, 16, name, per: unit),
                        let few = net(implementation, 4, name, per: unit)
                    else { return nil }
                    return (many - few) / 12
                }
                let (ours, theirs) = (further(.ours), further(.webrtcbin))
                rest.append([
                    title, "each one more, 4 to 16", fixed(ours ?? .nan, 1), fixed(theirs ?? .nan, 1),
                    ratio(ours, theirs), "", "", "",
                ])
            }
        }
        return """
            ## CPU of a session that sends and receives

            Seconds of CPU (user + system, all threads of the local process) a minute of media a session; VP8 720p30 at \
            2.5 Mbit/s is encoded beforehand, echoed, depayloaded, not decoded. "none" is source and payloader alone; \
            net = without it. The floor is \(floor.text(2)): a packet protected, sent, received and unprotected on one \
            thread, 260 packets a second in each direction.

            \(table(["sessions", "ours", "webrtcbin", "none", "ours net", "webrtcbin net", "net ratio", "ours / floor", "goal", "fps back"], cpu))
            ## Threads, file descriptors, memory

            A session's share, net of "none" (so one-off costs of a process weigh less with more sessions), and the \
            whole process.

            \(table(["measured", "sessions", "ours", "webrtcbin", "ratio", "process: ours", "webrtcbin", "none"], rest))\(notes(problems))
            """
    }

    // MARK: Many sessions

    private func manySessions() -> String {
        var problems: [String] = []
        let setups = Self.compared.flatMap { implementation in
            [1, 16, 64, 128].map { Setup(implementation: implementation, far: implementation, sessions: $0) }
        }
        let measured = measure(
            "many", setups, ["--seconds", quick ? "8" : "15", "--clip", clip], problems: &problems)
        let rows = setups.map { setup in
            [setup.implementation.rawValue, "\(setup.sessions)"]
                + [("p50", 1), ("p99", 1), ("in-time", 2), ("returned", 2), ("cpu", 2)].map { name, digits in
                    fixed(measured[setup]?[name]?.values.first ?? .nan, digits)
                }
        }
        return """
            ## Many sessions in a process

            Both ends run on this machine, each in a process of its own and with the same implementation; VP8 720p30 at 2.5 \
            Mbit/s, encoded beforehand. Delay in ms from the payloader to the depayloader, by way of the echo. "In time" are \
            those of the frames sent, in per cent, that come back within 20 ms of the median delay of the same frame in the \
            first session while that was alone: a keyframe is paced. CPU: seconds a minute and session. Goals: in time 99.9 \
            with 64 and 128, and CPU with 128 not above that with 16.

            \(table(["", "sessions", "p50", "p99", "in time, %", "back, %", "CPU"], rows))\(notes(problems))
            """
    }

    // MARK: Latency

    private func latency() -> String {
        var problems: [String] = []
        let setups = Self.compared.map { Setup(implementation: $0) }
        let measured = measure(
            "latency", setups, rounds: rounds, ["--seconds", quick ? "4" : "6"], problems: &problems)
        let rows = ["p50", "p95"].map { name in
            let samples = setups.map { measured[$0]?[name] ?? Samples() }
            return [name] + samples.map { $0.text() } + [ratio(samples[0].median, samples[1].median)]
        }
        return """
            ## Latency, capture to decoded

            ms from a frame's capture to its return through the echo, measured with a number in its luma: encoding, \
            sending, echoing, receiving and decoding at 720p30.

            \(table(["", "ours", "webrtcbin", "ratio"], rows))\(notes(problems))
            """
    }

    // MARK: Growth

    private func growth() -> String {
        var problems: [String] = []
        var rows: [[String]] = []
        let setups = Self.compared.map { Setup(implementation: $0) }
        let measured = measure("cycles", setups, ["--cycles", "\(cycles)", "--clip", clip], problems: &problems)
        for setup in setups {
            func values(_ name: String) -> [Double] { measured[setup]?[name]?.values ?? [] }
            for (title, name, unit) in Self.resources {
                let course = values(name).map { fixed($0 / unit, unit > 1 ? 2 : 0) }
                rows.append([setup.implementation.rawValue, title, course.first ?? "–", course.last ?? "–"])
            }
            rows.append(
                [setup.implementation.rawValue, "slowest stop, ms", "", fixed(values("slowest-stop").first ?? .nan)])
        }
        return """
            ## Growth over \(cycles) connect/stream/stop cycles

            \(table(["", "measured", "after \(cycles / 5) cycles", "at the end"], rows))\(notes(problems))
            """
    }

    // MARK: Plugin, element

    private func loading(of plugin: String?) -> String {
        guard let plugin else { return "## The plugin\n\nLeft out: no `--plugin`.\n" }
        var problems: [String] = []
        let measured =
            measure(
                "plugin", [Setup()], rounds: 3 * rounds, ["--plugin", plugin], problems: &problems)[Setup()] ?? [:]
        var file = stat()
        let size = stat(plugin, &file) == 0 ? Double(file.st_size) / 1e6 : .nan
        let rows =
            [["file, MB", fixed(size), "20"]]
            + [
                ("gst_plugin_load_file, ms", "load", "2.5"), ("its RSS, kB", "rss", ""),
                ("NULL to READY of a process's first element, ms", "ready", "50"),
            ].map { title, name, goal in
                [title, measured[name]?.text() ?? "–", goal]
            }
        return """
            ## The plugin

            Without debug information, as packaged. Median (smallest–largest) of \(3 * rounds) processes.

            \(table(["", "measured", "goal"], rows))\(notes(problems))
            """
    }
}
