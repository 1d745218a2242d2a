import Dispatch
import GStreamerKit
import ICE
import Synchronization
import WebRTCTransport

/// One end of a call in a pipeline of its own: a moving test picture out, decoded frames counted.
// @unchecked: the mutex guards what changes; GStreamer objects lock themselves.
final class TestPeer: @unchecked Sendable {
    let pipeline = Pipeline()
    let connection: PeerConnection
    let connected = DispatchSemaphore(value: 0)
    let failed = DispatchSemaphore(value: 0)
    private struct Seen {
        var candidates: [ICECandidate] = []
        var sinks: [@Sendable (ICECandidate?) -> Void] = []
        var error: PeerConnectionError?
        var gathered = false
        var frames = 0
        var size = (0, 0)
        var waiters: [(Int, DispatchSemaphore)] = []
        var estimate: Int?
    }
    private let seen = Mutex(Seen())
    private let sink: Element
    private final class Forward: Sendable {
        let target = Mutex<(@Sendable (PeerConnectionEvent) -> Void)?>(nil)
    }

    init(_ configuration: PeerConnectionConfiguration = PeerConnectionConfiguration()) throws {
        GStreamerRuntime.initialise()
        sink = try Element(factory: "fakesink")
        let forward = Forward()
        connection = try PeerConnection(configuration: configuration) { event in
            forward.target.withLock { $0 }?(event)
        }
        forward.target.withLock { $0 = { [weak self] event in self?.handle(event) } }
        pipeline.add(connection.bin)
    }

    private func handle(_ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate): deliver(candidate)
        case .gatheringComplete: deliver(nil)
        case .stateChanged(.connected): connected.signal()
        case .stateChanged(.failed(let error)):
            seen.withLock { $0.error = error }
            failed.signal()
        case .remoteBitrateEstimate(let bitrate): seen.withLock { $0.estimate = bitrate }
        default: break
        }
    }

    private func deliver(_ candidate: ICECandidate?) {
        let sinks = seen.withLock { seen in
            if let candidate { seen.candidates.append(candidate) } else { seen.gathered = true }
            return seen.sinks
        }
        for sink in sinks { sink(candidate) }
    }

    /// Candidates gathered so far and every later one, in order.
    func trickle(to sink: @escaping @Sendable (ICECandidate?) -> Void) {
        let (early, gathered) = seen.withLock { seen in
            seen.sinks.append(sink)
            return (seen.candidates, seen.gathered)
        }
        for candidate in early { sink(candidate) }
        if gathered { sink(nil) }
    }

    /// Sends a test picture and decodes what comes; call once the codec is negotiated.
    func startMedia(width: Int = 320, height: Int = 180) throws {
        guard let parameters = connection.sendParameters else { return }
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: 600_000)
        sink.set("sync", false)
        sink.set("async", false)
        let source = try Bin(
            description: "videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=\(width),height=\(height),framerate=30/1 ! queue leaky=downstream max-size-buffers=2",
            ghostUnlinkedPads: true)
        pipeline.add([decoder, sink, source, encoder.bin])
        try connection.bin.staticPad("rtp_src")?.link(decoder.staticPad("sink")!)
        try decoder.link(sink)
        try source.link(encoder.bin)
        try encoder.bin.staticPad("src")?.link(connection.bin.staticPad("rtp_sink")!)
        sink.staticPad("sink")?.addProbe(.buffer) { [weak self] _ in
            self?.frame(self?.sink.staticPad("sink")?.currentCaps.flatMap(VideoInfo.init(caps:)))
            return .pass
        }
        pipeline.setState(.playing)
    }

    private func frame(_ info: VideoInfo?) {
        let due = seen.withLock { seen in
            seen.frames += 1
            if let info { seen.size = (info.width, info.height) }
            let due = seen.waiters.filter { $0.0 <= seen.frames }
            seen.waiters.removeAll { $0.0 <= seen.frames }
            return due
        }
        for (_, waiter) in due { waiter.signal() }
    }

    /// Whether `count` decoded frames have come before the time is over.
    func waitForFrames(_ count: Int, seconds: Int = 20) -> Bool {
        let waiter = DispatchSemaphore(value: 0)
        let already = seen.withLock { seen in
            guard seen.frames < count else { return true }
            seen.waiters.append((count, waiter))
            return false
        }
        return already || waiter.wait(timeout: .now() + .seconds(seconds)) == .success
    }

    var frames: Int { seen.withLock(\.frames) }
    var size: (Int, Int) { seen.withLock(\.size) }
    var error: PeerConnectionError? { seen.withLock(\.error) }
    var estimate: Int? { seen.withLock(\.estimate) }

    func stop() {
        connection.close()
        pipeline.setState(.null)
        pipeline.remove(connection.bin)
        connection.dismantle()
    }
}

/// Joins two peers by handing descriptions and candidates over directly.
func join(_ a: TestPeer, _ b: TestPeer, mangleAnswer: (String) -> String = { $0 }, mangleOffer: (String) -> String = { $0 }) throws {
    let offer = try a.connection.createOffer()
    let answer = try b.connection.createAnswer(to: mangleOffer(offer))
    try a.connection.setAnswer(mangleAnswer(answer))
    a.trickle { [weak b] in b?.connection.addRemoteCandidate($0) }
    b.trickle { [weak a] in a?.connection.addRemoteCandidate($0) }
}
