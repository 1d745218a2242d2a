import DecartRealtime
import Foundation
import GStreamerKit
import Testing

extension RealtimeTests {
    /// Each test is the only one of a process of its own, which it starts: what a process does first decides.
    @Suite struct FirstInProcessTests {
        private static let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        private static let plugin = program.deletingLastPathComponent().appendingPathComponent("libgstdecart.so").path
        private static let mark = "DECART_TEST_FIRST"
        private static var isAlone: Bool { getenv(mark) != nil }

        /// A process cannot have the types of both.
        @Test("A process that has loaded the plugin gets an error that says so", .enabled(if: isBuilt))
        func pluginFirst() async throws {
            guard Self.isAlone else {
                return try await Self.runAlone("pluginFirst") {
                    try FileManager.default.createSymbolicLink(
                        atPath: $0.appendingPathComponent("libgstdecart.so").path, withDestinationPath: Self.plugin)
                }
            }
            GStreamerRuntime.initialise()
            let element = try Element(factory: "decarttransform")
            let error = await Guide.describe { _ = try DecartConfiguration(apiKey: "x").manager() }
            #expect(error?.text.contains("has loaded the plugin libgstdecart.so") == true, "\(error as Any)")
            #expect(element.factoryName == "decarttransform")
        }

        @Test("Frames and samples may be made before there is a client")
        func mediaFirst() async throws {
            guard Self.isAlone else { return try await Self.runAlone("mediaFirst") }
            let frame = try VideoFrame(width: 3, height: 3, format: .rgba, data: Data(repeating: 7, count: 36))
            VideoSource().push(frame)
            AudioSource().push([0, 1, 2, 3])
            #expect(frame.rgba == Data(repeating: 7, count: 36))
        }

        /// - Parameter prepare: makes the plugins of the process in a folder.
        private static func runAlone(_ test: String, prepare: (URL) throws -> Void = { _ in }) async throws {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("decart-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try prepare(folder)
            let process = Process()
            process.executableURL = program
            process.arguments = ["--testing-library", "swift-testing", "--filter", test]
            process.environment = ProcessInfo.processInfo.environment.merging([
                mark: "1", "GST_PLUGIN_PATH_1_0": folder.path,
                "GST_REGISTRY_1_0": folder.appendingPathComponent("registry").path,
                "G_DEBUG": "fatal-criticals",
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

        private static var isBuilt: Bool { FileManager.default.isReadableFile(atPath: plugin) }
    }
}
