import Glibc

/// The measurements, their order and their tables.
struct Plan {
    let quick: Bool
    let cycles: Int
    let clip: String
    let folder: String

    /// Values reported by one process, by name, in order.
    typealias Measurements = [String: [Double]]

    /// Runs one measurement; adds a sentence to `problems` if it fails.
    private func measure(_ arguments: [String], problems: inout [String]) -> Measurements {
        do {
            let child = try Child(["measure"] + arguments)
            child.closeInput()
            var measured: Measurements = [:]
            readLines(from: child.output) { line in
                let parts = line.split(separator: " ")
                if parts.count == 2, let value = Double(parts[1]) {
                    measured[String(parts[0]), default: []].append(value)
                }
            }
            let status = child.wait()
            if status != 0 { problems.append("`measure \(arguments.joined(separator: " "))` ended with \(status)") }
            return measured
        } catch {
            problems.append("\(error)")
            return [:]
        }
    }

    /// The report of another command, which runs in a process of its own, under a heading.
    private func report(_ title: String, _ arguments: [String]) -> String {
        var lines = ["## \(title)", "", "`decart-bench \(arguments.joined(separator: " "))`", ""]
        do {
            let child = try Child(arguments)
            child.closeInput()
            readLines(from: child.output) { lines.append(String($0)) }
            let status = child.wait()
            if status != 0 { lines.append("It ended with \(status).") }
        } catch { lines.append("\(error)") }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The report of a command that needs the plugin.
    private func report(_ title: String, _ command: [String], _ plugin: String?, rounds: String) -> String {
        guard let plugin else { return "## \(title)\n\nLeft out: no `--plugin`.\n" }
        return report(title, command + ["--plugin", plugin, "--rounds", rounds])
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

    func connect() -> String {
        var samples: [String: Samples] = [:]
        var problems: [String] = []
        let fars: [Implementation] = [.ours, .webrtcbin]
        for _ in 0..<(quick ? 1 : 3) {
            for far in fars {
                for implementation in [Implementation.ours, .webrtcbin] {
                    let measured = measure(
                        [
                            "connect", "--implementation", implementation.rawValue, "--far", far.rawValue, "--sessions",
                            quick ? "4" : "8",
                        ],
                        problems: &problems)
                    for (name, values) in measured {
                        for value in values {
                            samples["\(implementation.rawValue) \(far.rawValue) \(name)", default: Samples()].add(value)
                        }
                    }
                }
            }
        }
        var rows: [[String]] = []
        for far in fars {
            for (title, name) in [
                ("answer received", "answered"), ("ICE connected", "ice"), ("**connected** (DTLS done)", "connected"),
                ("**first decoded frame** back", "frame"), ("connected, first session of a process", "first-connected"),
            ] {
                let ours = samples["ours \(far.rawValue) \(name)"] ?? Samples()
                let theirs = samples["webrtcbin \(far.rawValue) \(name)"] ?? Samples()
                rows.append([far.rawValue, title, ours.text(), theirs.text(), ratio(ours.median, theirs.median)])
            }
        }
        return """
            ## From start to connected and to the first decoded frame

            ms since the local transport was requested; 720p30 live video is encoded, echoed by the remote peer's \
            process without decoding, and decoded. Median (smallest–largest). Each line includes the time of the lines \
            before it.

            \(table(["remote peer", "until", "ours", "webrtcbin", "ours / webrtcbin"], rows))\(notes(problems))
            """
    }

    // MARK: Load

    func load() -> String {
        let counts = quick ? [1, 4] : [1, 4, 16]
        var samples: [String: Samples] = [:]
        var problems: [String] = []
        for _ in 0..<(quick ? 1 : 3) {
            for count in counts {
                for implementation in Implementation.allCases {
                    let measured = measure(
                        [
                            "load", "--implementation", implementation.rawValue, "--sessions", "\(count)", "--seconds",
                            quick ? "4" : "5",
                            "--clip", clip,
                        ], problems: &problems)
                    for (name, values) in measured {
                        for value in values {
                            samples["\(implementation.rawValue) \(count) \(name)", default: Samples()].add(value)
                        }
                    }
                }
            }
        }
        let floor = Samples((0..<(quick ? 1 : 3)).flatMap { _ in measure(["floor"], problems: &problems)["cpu"] ?? [] })
        func sample(_ implementation: Implementation, _ count: Int, _ name: String) -> Samples {
            samples["\(implementation.rawValue) \(count) \(name)"] ?? Samples()
        }
        func net(_ implementation: Implementation, _ count: Int, _ name: String, per unit: Double)
            -> Double?
        {
            guard let value = sample(implementation, count, name).median, let base = sample(.none, count, name).median
            else {
                return nil
            }
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
                ratio(ours, theirs),
                "\(sample(.ours, count, "fps").text(1)) / \(sample(.webrtcbin, count, "fps").text(1))",
            ])
            for (title, name, unit) in [("threads", "threads", 1.0), ("fds", "fds", 1.0), ("RSS, MB", "rss", 1024.0)] {
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
            for (title, name, unit) in [("threads", "threads", 1.0), ("fds", "fds", 1.0), ("RSS, MB", "rss", 1024.0)] {
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

            \(table(["sessions", "ours", "webrtcbin", "none", "ours net", "webrtcbin net", "net ratio", "fps back"], cpu))
            ## Threads, file descriptors, memory

            A session's share, net of "none" (so one-off costs of a process weigh less with more sessions), and the \
            whole process.

            \(table(["measured", "sessions", "ours", "webrtcbin", "ratio", "process: ours", "webrtcbin", "none"], rest))\(notes(problems))
            """
    }

    // MARK: Many sessions

    func manySessions() -> String {
        var problems: [String] = []
        var rows: [[String]] = []
        for implementation in [Implementation.ours, .webrtcbin] {
            for sessions in [1, 16, 64] {
                let measured = measure(
                    [
                        "many", "--implementation", implementation.rawValue, "--far", implementation.rawValue,
                        "--sessions", "\(sessions)", "--seconds", quick ? "8" : "15", "--clip", clip,
                    ], problems: &problems)
                let values = [("p50", 1), ("p99", 1), ("in-time", 2), ("returned", 2)].map { name, digits in
                    fixed(measured[name]?.first ?? .nan, digits)
                }
                rows.append([implementation.rawValue, "\(sessions)"] + values)
            }
        }
        return """
            ## Many sessions in a process

            Both ends run on this machine, each in a process of its own and with the same implementation; VP8 720p30 at 2.5 \
            Mbit/s, encoded beforehand. Delay in ms from the payloader to the depayloader, by way of the echo. "In time" are \
            those of the frames sent, in per cent, that come back within 20 ms of the median delay of the same frame in the \
            first session while that was alone: a keyframe is paced.

            \(table(["", "sessions", "p50", "p99", "in time, %", "back, %"], rows))\(notes(problems))
            """
    }

    // MARK: Latency

    func latency() -> String {
        var problems: [String] = []
        var median: [Implementation: Samples] = [:]
        var late: [Implementation: Samples] = [:]
        for _ in 0..<(quick ? 1 : 3) {
            for implementation in [Implementation.ours, .webrtcbin] {
                let measured = measure(
                    ["latency", "--implementation", implementation.rawValue, "--seconds", quick ? "4" : "6"],
                    problems: &problems)
                for value in measured["p50"] ?? [] { median[implementation, default: Samples()].add(value) }
                for value in measured["p95"] ?? [] { late[implementation, default: Samples()].add(value) }
            }
        }
        let rows = [("p50", median), ("p95", late)].map { name, samples in
            let ours = samples[.ours] ?? Samples()
            let theirs = samples[.webrtcbin] ?? Samples()
            return [name, ours.text(), theirs.text(), ratio(ours.median, theirs.median)]
        }
        return """
            ## Latency, capture to decoded

            ms from a frame's capture to its return through the echo, measured with a number in its luma: encoding, \
            sending, echoing, receiving and decoding at 720p30.

            \(table(["", "ours", "webrtcbin", "ratio"], rows))\(notes(problems))
            """
    }

    // MARK: Growth

    func growth() -> String {
        var problems: [String] = []
        var rows: [[String]] = []
        for implementation in [Implementation.ours, .webrtcbin] {
            let measured = measure(
                ["cycles", "--implementation", implementation.rawValue, "--cycles", "\(cycles)", "--clip", clip],
                problems: &problems)
            let marks = measured["cycle"] ?? []
            for (title, name, unit) in [("RSS, MB", "rss", 1024.0), ("fds", "fds", 1.0), ("threads", "threads", 1.0)] {
                let values = measured[name] ?? []
                let course = zip(marks, values).map { "\(fixed($1 / unit, unit > 1 ? 2 : 0)) @\(fixed($0, 0))" }
                rows.append([implementation.rawValue, title, course.joined(separator: ", ")])
            }
            rows.append([implementation.rawValue, "slowest stop, ms", fixed(measured["slowest-stop"]?.first ?? .nan)])
        }
        return """
            ## Growth over \(cycles) connect/stream/stop cycles

            \(table(["", "measured", "after this number of cycles"], rows))\(notes(problems))
            """
    }

    // MARK: Plugin

    func pluginLoad(_ plugin: String?) -> String {
        let head = "## Loading the plugin\n\n"
        guard let plugin else { return head + "Left out: no `--plugin`.\n" }
        return head + PluginLoad(folder: folder, repetitions: quick ? 3 : 11).report(plugin)
    }

    // MARK: Encoder

    func encoder() -> String {
        var problems: [String] = []
        let measured = measure(["encoder"], problems: &problems)
        let rows = [("ours", "tuned"), ("vp8enc's defaults", "defaults")].map { title, name in
            [title]
                + ["median", "p95", "first", "kilobits"].map {
                    fixed(measured["\(name)-\($0)"]?.first ?? .nan, $0 == "kilobits" ? 0 : 1)
                }
        }
        return """
            ## VP8 encoder at 720p, 2.5 Mbit/s

            \(table(["settings", "ms CPU a frame, median", "p95", "first frame (keyframe)", "kbit/s"], rows))\(notes(problems))
            """
    }

    // MARK: Element, scaler, mirror

    func element(_ plugin: String?) -> String {
        ["h264", "vp8"].map { codec in
            report(
                "Element against its codecs, \(codec)", ["element", "--codec", codec], plugin, rounds: quick ? "2" : "5"
            )
        }.joined(separator: "\n")
    }

    func encoded(_ plugin: String?) -> String {
        report("Encoded in, encoded out", ["encoded"], plugin, rounds: quick ? "1" : "3")
    }

    func start(_ plugin: String?) -> String {
        report("From PLAYING to the first transformed frame", ["start"], plugin, rounds: quick ? "5" : "15")
    }

    func scaler() -> String { report("Scaler", ["scale", "--rounds", quick ? "11" : "31"]) }

    func mirror() -> String { report("Mirror", ["flip", "--rounds", quick ? "11" : "31"]) }

    // MARK: Frame rate

    func frameRate(_ plugin: String?) -> String {
        let head = "## Frame rate sent\n\n"
        guard let plugin else { return head + "Left out: no `--plugin`.\n" }
        var problems: [String] = []
        var rows: [[String]] = []
        let sources = [
            ("standard", "smpte", 22), ("standard", "smpte", 26), ("standard", "smpte", 30), ("snow", "snow", 30),
        ]
        for (name, pattern, framerate) in sources {
            for (way, transport) in [("direct", "webrtc"), ("room", "livekit")] {
                for codec in ["vp8", "h264", "vp9"] {
                    let measured = measure(
                        [
                            "rate", "--plugin", plugin, "--transport", transport, "--codec", codec, "--pattern",
                            pattern,
                            "--framerate", String(framerate), "--seconds", quick ? "5" : "10",
                        ], problems: &problems)
                    let values = FrameRate.names.map { name in
                        fixed(measured[name]?.first ?? .nan, name == "kilobits" || name == "alone" ? 0 : 1)
                    }
                    rows.append([name, String(framerate), way, codec] + values)
                }
            }
        }
        return head + """
            `videotestsrc` at 1280x704 with its standard pattern or snow through the plugin and the stand-in, from the \
            first returned frame. The columns are frames a second: those that the source produces, those that the \
            encoder gets, those that the degradation ladder skips, and those that are dropped because the encoder is \
            busy. The last column is the frame rate of the encoder alone at 2.5 Mbit/s, with the source on one thread.

            \(table(["pattern", "framerate", "path", "codec", "sent", "skipped", "dropped", "kbit/s", "encoder alone"], rows))\(notes(problems))
            """
    }
}
