import DecartRealtime
import Foundation
import StandInServer
import Synchronization
import Testing

/// Parent of the suites: one session at a time has the machine.
@Suite(.serialized, .timeLimit(.minutes(3))) enum RealtimeTests {}

/// A stand-in service in this process.
struct Service {
    let server: StandInServer
    let port: Int
    static let rejectedKey = "rejected-key"

    /// A custom model whose frames cost little.
    static let model = ModelDefinition(name: "test-model", fps: 20, width: 320, height: 176)

    static func run(
        _ faults: [String] = [], _ body: @Sendable (Service, DecartConfiguration) async throws -> Void
    ) async throws {
        setenv("DECART_SOURCE", "test", 1)
        unsetenv("DECART_API_KEY")
        signal(SIGPIPE, SIG_IGN)
        var configuration = StandInConfiguration()
        configuration.port = 0
        configuration.keys = KeyPolicy(rejected: [rejectedKey])
        configuration.faults = try faults.map { try Fault(parsing: $0) }
        let server = StandInServer(configuration: configuration)
        let service = Service(server: server, port: try server.start())
        defer { server.stop() }
        try await body(service, try service.configuration())
        #expect(await service.wait { $0.allSatisfy { !$0.isOpen } }, "a session is still open")
    }

    func configuration(key: String = "key") throws -> DecartConfiguration {
        try DecartConfiguration(apiKey: key, baseURL: "ws://127.0.0.1:\(port)")
    }

    var sessions: [SessionRecord] { server.sessions }

    /// Waits on a thread of its own.
    func wait(until condition: @escaping @Sendable ([SessionRecord]) -> Bool) async -> Bool {
        await withCheckedContinuation { done in
            Thread.detachNewThread { [server] in
                done.resume(returning: server.wait(milliseconds: 60_000, until: condition))
            }
        }
    }
}

extension DecartConfiguration {
    /// A manager for frames of little cost.
    func manager(
        _ prompt: DecartPrompt? = nil, _ change: (inout RealtimeConfiguration.ConnectionConfig) -> Void = { _ in }
    ) throws -> DecartRealtimeManager {
        var connection = RealtimeConfiguration.ConnectionConfig()
        // A loaded machine may exceed the default.
        connection.connectionTimeout = 60
        change(&connection)
        return try DecartClient(decartConfiguration: self).createRealtimeManager(
            options: RealtimeConfiguration(model: Service.model, initialPrompt: prompt, connection: connection))
    }
}

extension DecartRealtimeManager {
    /// A track that reads a test pattern of GStreamer.
    func track(_ pattern: String = "smpte-rp-219", id: String = "video0") throws -> VideoTrack {
        let source = try videoSource(
            from: "videotestsrc is-live=true pattern=\(pattern) ! video/x-raw,width=320,height=176,framerate=20/1")
        return createVideoTrack(source: source, trackId: id)
    }

    func connect(_ track: VideoTrack, audio: AudioTrack? = nil) async throws -> VideoTrack {
        let remote = try await connect(
            localStream: RealtimeMediaStream(videoTrack: track, audioTrack: audio, id: .localStream))
        return try #require(remote.videoTrack)
    }
}

extension VideoFrame {
    /// Code values of a packed plane of an I420 frame: 0 is luma, 1 and 2 are chroma.
    func plane(_ index: Int) -> Data {
        let (luma, chroma) = (width * height, (width + 1) / 2 * ((height + 1) / 2))
        let start = index == 0 ? 0 : luma + (index - 1) * chroma
        return i420[start..<start + (index == 0 ? luma : chroma)]
    }

    func mean(ofPlane index: Int) -> Int { plane(index).reduce(0) { $0 + Int($1) } / max(1, plane(index).count) }

    /// Mean distance of the chroma from grey, code values.
    var saturation: Int {
        let chroma = plane(1) + plane(2)
        return chroma.reduce(0) { $0 + abs(Int($1) - 128) } / max(1, chroma.count)
    }
}

extension VideoTrack {
    /// The first frame that fulfils a condition; nil if the track ends.
    func frame(where condition: @Sendable (VideoFrame) -> Bool) async -> VideoFrame? {
        for await frame in frames where condition(frame) { return frame }
        return nil
    }
}

/// What a stream has brought, for a test that waits for some of it.
final class Collected<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ stream: AsyncStream<Item>) {
        let task = Task { [weak self] in
            for await item in stream { self?.items.withLock { $0.append(item) } }
        }
        self.task.withLock { $0 = task }
    }

    /// The items of a stream that ends.
    var all: [Item] {
        get async {
            await task.withLock { $0 }?.value
            return items.withLock { $0 }
        }
    }
}
