import DecartRealtime
import Foundation
import GStreamerKit
import Testing

extension RealtimeTests {
    /// In a process of its own, whose only test this is: a process cannot have the types of both.
    @Suite struct PluginFirstTests {
        private static let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        private static let plugin = program.deletingLastPathComponent().appendingPathComponent("libgstdecart.so").path
        private static let mark = "DECART_TEST_PLUGIN_FIRST"

        @Test("A process that has loaded the plugin gets an error that says so", .enabled(if: isBuilt))
        func pluginFirst() async throws {
            guard getenv(Self.mark) == nil else { return try await refused() }
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("decart-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try FileManager.default.createSymbolicLink(
                atPath: folder.appendingPathComponent("libgstdecart.so").path, withDestinationPath: Self.plugin)
            let process = Process()
            process.executableURL = Self.program
            process.arguments = ["--testing-library", "swift-testing", "--filter", "pluginFirst"]
            process.environment = ProcessInfo.processInfo.environment.merging([
                Self.mark: "1", "GST_PLUGIN_PATH_1_0": folder.path,
                "GST_REGISTRY_1_0": folder.appendingPathComponent("registry").path,
            ]) { $1 }
            let output = Pipe()
            (process.standardOutput, process.standardError) = (output, output)
            try process.run()
            let reader = output.fileHandleForReading
            let text = await withCheckedContinuation { done in
                Thread.detachNewThread {
                    done.resume(returning: String(decoding: reader.readDataToEndOfFile(), as: UTF8.self))
                }
            }
            process.waitUntilExit()
            #expect(process.terminationStatus == 0 && text.contains("1 test"), "\(text)")
        }

        private func refused() async throws {
            GStreamerRuntime.initialise()
            let element = try Element(factory: "decarttransform")
            let error = await Guide.describe { _ = try DecartConfiguration(apiKey: "x").manager() }
            #expect(error?.text.contains("has loaded the plugin libgstdecart.so") == true, "\(error as Any)")
            #expect(element.factoryName == "decarttransform")
        }

        private static var isBuilt: Bool { FileManager.default.isReadableFile(atPath: plugin) }
    }
}
