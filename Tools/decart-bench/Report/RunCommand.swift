import CGStreamer
import CommandLineOptions
import GStreamerKit
import Glibc

/// Runs all measurements, alternating between the implementations, and prints a report in Markdown.
struct RunCommand: Command {
    private var quick = false
    private var cycles: Int?
    private var plugin: String?
    private var only: [Part] = []

    static var table: OptionTable<RunCommand> {
        .bench(
            "run", abstract: "Runs everything and prints a report in Markdown (the default).",
            discussion: """
                Each measurement has a process of its own and the remote peer another; the implementations alternate, so \
                that a slow minute of the machine affects both. Traffic stays on this machine. Nothing is written but the \
                report and, while it runs, a file in the temporary directory.
                """,
            options: [
                .flag("quick", \.quick, "About six minutes: one repetition, fewer sessions, 20 cycles."),
                .number(
                    "cycles", "number", \.cycles, in: 5...10_000,
                    "Connect/stream/stop cycles for the test of growth."),
                .value(
                    "plugin", "file", \.plugin,
                    "The plugin whose element is measured; without it these parts are left out."),
                .list(
                    "only", "part", \.only,
                    "Only these parts: \(Part.choices.joined(separator: ", ")). May be given more than once."),
            ])
    }

    enum Part: String, CaseIterable, OptionValue {
        case plugin, connect, start, load, many, latency, growth, element, encoded
    }

    private static var library: String {
        guard let text = gst_version_string() else { return "GStreamer" }
        defer { g_free(text) }
        return String(cString: text)
    }

    private static func temporaryFile() throws -> String {
        var template = Array("/tmp/decart-bench-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw BenchError("cannot make a file in /tmp") }
        close(descriptor)
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func run() throws {
        signal(SIGPIPE, SIG_IGN)
        GStreamerRuntime.initialise()
        let clip = try Self.temporaryFile()
        defer { unlink(clip) }
        let load = Machine.load
        writeAll(
            "Machine: \(Machine.description); \(Self.library). Load average at the start: \(load).\n\n",
            to: STDOUT_FILENO)
        let parts = only.isEmpty ? Part.allCases : only
        if !Set(parts).isDisjoint(with: [.load, .many, .growth]) { try Clip(encoding: 120).write(to: clip) }
        let plan = Plan(quick: quick, cycles: cycles ?? (quick ? 20 : 50), clip: clip)
        for part in parts { writeAll(plan.section(part, plugin: plugin) + "\n", to: STDOUT_FILENO) }
        writeAll("Load average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }
}
