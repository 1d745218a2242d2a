import ArgumentParser
import CGStreamer
import GStreamerKit
import Glibc

/// Runs all measurements, alternating between the implementations, and prints a report in Markdown.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs everything and prints a report in Markdown (the default).",
        discussion: """
            Each measurement has a process of its own and the remote peer another; the implementations alternate, so that \
            a slow minute of the machine affects both. Traffic stays on this machine. Nothing is written but the report \
            and, while it runs, a file in the temporary directory.
            """)

    @Flag(help: "About six minutes: one repetition, fewer sessions, 20 cycles.")
    var quick = false

    @Option(help: ArgumentHelp("Connect/stream/stop cycles for the test of growth.", valueName: "number"))
    var cycles: Int?

    @Option(
        help: ArgumentHelp(
            "The plugin whose element is measured; without it these parts are left out.",
            valueName: "file")
    )
    var plugin: String?

    @Option(
        help: ArgumentHelp(
            "Only these parts: \(Part.allCases.map(\.rawValue).joined(separator: ", ")). May be given more than once.",
            valueName: "part"))
    var only: [Part] = []

    enum Part: String, CaseIterable, ExpressibleByArgument {
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

    func validate() throws {
        if let cycles, !(5...10_000).contains(cycles) { throw ValidationError("--cycles is a number from 5 to 10000.") }
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
