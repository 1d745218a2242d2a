import ArgumentParser
import CGStreamer
import Glibc

/// Measures the cost of loading a plugin library into a process.
struct PluginLoad {
    let folder: String
    let repetitions: Int

    private static let systemFolder = "/usr/lib/\(machine)-linux-gnu/gstreamer-1.0"
    private static var machine: String {
        var name = utsname()
        uname(&name)
        return withUnsafeBytes(of: &name.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    func report(_ plugin: String) -> String {
        let libraries = [
            ("libgstdecart.so", plugin), ("libgstwebrtc.so", "\(Self.systemFolder)/libgstwebrtc.so"),
            ("libgstflv.so (small, C)", "\(Self.systemFolder)/libgstflv.so"),
        ]
        var load: [Int: Samples] = [:]
        var anonymous: [Int: Samples] = [:]
        var file: [Int: Samples] = [:]
        var wall: [Int: Samples] = [:]
        for _ in 0...repetitions {
            for (index, (_, path)) in libraries.enumerated() {
                guard let cost = inProcess(path), let inspect = inspect(path) else { continue }
                load[index, default: Samples()].add(cost.milliseconds)
                anonymous[index, default: Samples()].add(cost.anonymous)
                file[index, default: Samples()].add(cost.file)
                wall[index, default: Samples()].add(inspect)
            }
        }
        var lines = [
            "| library | `gst_plugin_load_file`, ms | RSS it added, kB anonymous / file | `gst-inspect-1.0 FILE`, ms |",
            "|---|---|---|---|",
        ]
        for (index, (name, _)) in libraries.enumerated() {
            let memory = "\(fixed(anonymous[index]?.median ?? .nan, 0)) / \(fixed(file[index]?.median ?? .nan, 0))"
            lines.append(
                "| \(name) | \((load[index] ?? Samples()).text(2)) | \(memory) | \((wall[index] ?? Samples()).text()) |"
            )
        }
        return """
            Each process is new, with a registry of its own and no other plugin. In the first two columns the process \
            has GStreamer, libnice, OpenSSL and Swift's runtime mapped already, because the benchmark uses them; \
            `gst-inspect-1.0` starts without them.

            \(lines.joined(separator: "\n"))

            """
    }

    private var environment: [String] {
        [
            "GST_REGISTRY_1_0=\(folder)/registry", "GST_PLUGIN_SYSTEM_PATH_1_0=\(folder)/none", "GST_PLUGIN_PATH_1_0=",
            "GST_REGISTRY_FORK=no",
        ]
    }

    private func inProcess(_ path: String) -> (milliseconds: Double, anonymous: Double, file: Double)? {
        guard let child = try? Child(["plugin-load", path], environment: environment) else { return nil }
        child.closeInput()
        var values: [Double] = []
        readLines(from: child.output) { line in values += line.split(separator: " ").compactMap { Double($0) } }
        guard child.wait() == 0, values.count == 3 else { return nil }
        return (values[0], values[1], values[2])
    }

    private func inspect(_ path: String) -> Double? {
        let begun = ContinuousClock.now
        guard let child = try? Child([path], path: "/usr/bin/gst-inspect-1.0", environment: environment) else {
            return nil
        }
        child.closeInput()
        readLines(from: child.output) { _ in }
        return child.wait() == 0 ? (.now - begun).milliseconds : nil
    }
}

/// Loads one plugin library and prints milliseconds, kB of anonymous and kB of file-backed memory.
struct PluginLoadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plugin-load", abstract: "Loads a plugin; started by the main command.", shouldDisplay: false)

    @Argument var path: String

    func run() throws {
        gst_init(nil, nil)
        let before = ProcessStatistics.residentParts
        let begun = ContinuousClock.now
        guard gst_plugin_load_file(path, nil) != nil else { throw BenchError("\(path) does not load") }
        let took = ContinuousClock.now - begun
        let after = ProcessStatistics.residentParts
        writeAll(
            "\(fixed(took.milliseconds, 3)) \(after.anonymous - before.anonymous) \(after.file - before.file)\n",
            to: STDOUT_FILENO)
    }
}
