import Dispatch
import GStreamerKit
import ICE
import RTP
import Synchronization
import TestSupport
import WebRTCTransport

/// Mean colour of a frame, 0…255.
struct Colour: Sendable, Equatable {
    var red: Double, green: Double, blue: Double

    /// Default colour of the Python peers, RRGGBB 2878c8.
    static let blueish = Colour(red: 0x28, green: 0x78, blue: 0xc8)
    static let reddish = Colour(red: 0xc0, green: 0x40, blue: 0x30)

    func isNear(_ other: Colour, within tolerance: Double = 25) -> Bool {
        abs(red - other.red) < tolerance && abs(green - other.green) < tolerance && abs(blue - other.blue) < tolerance
    }

    var hex: String {
        [red, green, blue].map { String(UInt32($0), radix: 16) }.map { $0.count < 2 ? "0" + $0 : $0 }.joined()
    }

    /// Converts mean Y, U and V, limited-range BT.601 (RFC 6386 9.2).
    init(luma: Double, u: Double, v: Double) {
        let y = 1.164 * (luma - 16)
        red = y + 1.596 * (v - 128)
        green = y - 0.392 * (u - 128) - 0.813 * (v - 128)
        blue = y + 2.017 * (u - 128)
    }

    init(red: Double, green: Double, blue: Double) { (self.red, self.green, self.blue) = (red, green, blue) }
}

/// A peer in a pipeline of its own: it sends a moving test pattern and counts the decoded frames.
// @unchecked: locks guard the mutable state; GStreamer objects have their own locks.
final class TestPeer: @unchecked Sendable {
    struct Seen: Sendable {
        var candidates: [ICECandidate?] = []
        var state = PeerConnectionState.new
        var iceConnected: ContinuousClock.Instant?
        var connected: ContinuousClock.Instant?
        var failed: ContinuousClock.Instant?
        var error: PeerConnectionError?
        var frames = 0
        var lastFrame: ContinuousClock.Instant?
        var longestGap = Duration.zero
        var size = (0, 0)
        var colour: Colour?
        var keyFramesSent = 0
        var keyFramesReceived = 0
        var streams: [String] = []
        var codecs: [VideoCodec] = []
        var bitrateTargets = 0
        var restarts: [Bool] = []
        var missingRelays = 0
    }
    let seen = Watched(Seen())
    let received = Watched(Heard())
    let pipeline: Pipeline
    let connection: PeerConnection
    private let sink: Element
    private var decoder: Bin?
    private let sinks = Mutex<[@Sendable (ICECandidate?) -> Void]>([])

    init(_ configuration: PeerConnectionConfiguration = PeerConnectionConfiguration()) throws {
        GStreamerRuntime.initialise()
        pipeline = Pipeline()
        sink = try makeDrain()
        final class Forward: Sendable { let target = Mutex<(@Sendable (PeerConnectionEvent) -> Void)?>(nil) }
        let forward = Forward()
        connection = try PeerConnection(configuration: configuration) { event in forward.target.withLock { $0 }?(event)
        }
        forward.target.withLock { $0 = { [weak self] event in self?.handle(event) } }
        pipeline.add(connection.bin)
    }

    private func handle(_ event: PeerConnectionEvent) {
        var candidate: ICECandidate??
        seen.change { seen in
            switch event {
            case .localCandidate(let made):
                seen.candidates.append(made)
                candidate = .some(made)
            case .gatheringComplete:
                seen.candidates.append(nil)
                candidate = .some(nil)
            case .relaysMissing: seen.missingRelays += 1
            case .iceConnected: seen.iceConnected = .now
            case .disconnected, .reconnected: break
            case .iceRestarted(let succeeded): seen.restarts.append(succeeded)
            case .stateChanged(let state):
                seen.state = state
                if state == .connected { seen.connected = .now }
                if case .failed(let error) = state { (seen.failed, seen.error) = (.now, error) }
            case .streamArrived(let rid): seen.streams.append(rid)
            case .codecArrived(let codec): seen.codecs.append(codec)
            case .bitrateTarget: seen.bitrateTargets += 1
            }
        }
        if let candidate { for sink in sinks.withLock({ $0 }) { sink(candidate) } }
    }

    /// Passes all candidates, earlier and later ones, to `sink` in order; nil ends them.
    func trickle(to sink: @escaping @Sendable (ICECandidate?) -> Void) {
        // A candidate that is gathered at this moment may be passed twice, which does no harm.
        sinks.withLock { $0.append(sink) }
        for candidate in seen.value.candidates { sink(candidate) }
    }

    /// Sends a test pattern and decodes received video; call it once the codec is negotiated.
    func startMedia(
        width: Int = 320, height: Int = 180, framerate: Int = 30, background: Colour = .blueish,
        pattern: String = "ball",
        bitrate: Int = 600_000, simulcast: SimulcastAllocation? = nil
    ) throws {
        guard let parameters = connection.sendParameters else { return }
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        self.decoder = decoder
        let encoder = try makeEncoder(parameters, (width, height), bitrate, simulcast)
        let colour = 0xff00_0000 | UInt32(background.hex, radix: 16)!
        let source = try Bin(
            description: "videotestsrc is-live=true pattern=\(pattern) background-color=\(colour) ! "
                + "video/x-raw,format=I420,width=\(width),height=\(height),framerate=\(framerate)/1,colorimetry=bt601 ! "
                + "queue leaky=downstream max-size-buffers=2",
            ghostUnlinkedPads: true)
        pipeline.add([decoder, sink, source, encoder.bin])
        try connection.bin.staticPad("rtp_src")?.link(decoder.staticPad("sink")!)
        try decoder.link(sink)
        try source.link(encoder.bin)
        try encoder.bin.staticPad("src")?.link(connection.bin.staticPad("rtp_sink")!)
        let seen = seen
        let decoded = sink.staticPad("sink")!
        decoded.addProbe(.buffer) { [pad = decoded.unowned] item in
            if case .buffer(let frame) = item {
                Self.count(frame, pad.currentCaps.flatMap(VideoInfo.init(caps:)), seen)
            }
            return .pass
        }
        encoder.encoders[0].staticPad("src")?.addProbe(.buffer) { item in
            if case .buffer(let frame) = item, !frame.isDeltaUnit { seen.change { $0.keyFramesSent += 1 } }
            return .pass
        }
        let depayloader = decoder.allElements.first { $0.factoryName == parameters.codec.depayloader }
        depayloader?.staticPad("src")?.addProbe(.buffer) { item in
            if case .buffer(let frame) = item, !frame.isDeltaUnit { seen.change { $0.keyFramesReceived += 1 } }
            return .pass
        }
        pipeline.setState(.playing)
    }

    private func makeEncoder(
        _ parameters: RTPSendParameters, _ size: (width: Int, height: Int), _ bitrate: Int,
        _ allocation: SimulcastAllocation?
    ) throws -> any VideoSender {
        guard let allocation else { return try VideoEncoderBin(parameters: parameters, bitrate: bitrate) }
        let made = try SimulcastEncoderBin(
            parameters: parameters, layers: SimulcastLayer.layers(width: size.width, height: size.height),
            allocation: allocation, size: size, bitrate: bitrate)
        simulcast.withLock { $0 = made }
        return made
    }

    /// The encoder of the simulcast layers, if any.
    let simulcast = Mutex<SimulcastEncoderBin?>(nil)

    private static func count(_ frame: Buffer, _ info: VideoInfo?, _ seen: Watched<Seen>) {
        guard let info else { return }
        let means = frame.withVideoPlanes(info, writable: false) { $0.map(\.mean) }
        seen.change { seen in
            seen.frames += 1
            let now = ContinuousClock.now
            if let last = seen.lastFrame { seen.longestGap = max(seen.longestGap, now - last) }
            seen.lastFrame = now
            seen.size = (info.width, info.height)
            if let means, means.count == 3 { seen.colour = Colour(luma: means[0], u: means[1], v: means[2]) }
        }
    }

    /// Requests a keyframe from the remote peer, as a decoder does after an error.
    func requestKeyFrame() { decoder?.staticPad("sink")?.push(Event.forceKeyUnitUpstream()) }

    func waitForFrames(_ count: Int, within limit: Duration = .seconds(40)) -> Bool {
        seen.wait(limit) { $0.frames >= count }
    }
    func waitForConnected(within limit: Duration = .seconds(20)) -> Bool { seen.wait(limit) { $0.connected != nil } }

    var frames: Int { seen.value.frames }
    var size: (Int, Int) { seen.value.size }
    var error: PeerConnectionError? { seen.value.error }

    func stop() {
        connection.close()
        pipeline.setState(.null)
        pipeline.remove(connection.bin)
        connection.dismantle()
    }

    static func stop(_ peers: TestPeer...) { for peer in peers { peer.stop() } }

    static func startMedia(_ peers: TestPeer...) throws { for peer in peers { try peer.startMedia() } }
}

/// Makes a connection without a pipeline, for its descriptions alone.
func withConnection<Result>(
    _ change: (inout PeerConnectionConfiguration) -> Void = { _ in }, _ body: (PeerConnection) throws -> Result
) throws -> Result {
    GStreamerRuntime.initialise()
    var configuration = PeerConnectionConfiguration()
    change(&configuration)
    let connection = try PeerConnection(configuration: configuration) { _ in }
    defer {
        connection.close()
        connection.dismantle()
    }
    return try body(connection)
}

/// Negotiates again with an offer of `a`.
func renegotiate(_ a: TestPeer, _ b: TestPeer, restartsICE: Bool = false) throws {
    let offer = try a.connection.createOffer(restartsICE: restartsICE)
    try a.connection.setAnswer(b.connection.createAnswer(to: offer))
}

/// An offer whose streams the payload types alone tell apart.
func withoutSSRCs(_ sdp: String) -> String {
    sdp.split(separator: "\r\n" as Character).filter { !$0.hasPrefix("a=ssrc") }.map { $0 + "\r\n" }.joined()
}

/// Joins two peers by passing descriptions and candidates directly.
func join(
    _ a: TestPeer, _ b: TestPeer, mangleAnswer: (String) -> String = { $0 }, mangleOffer: (String) -> String = { $0 },
    keep: @escaping @Sendable (ICECandidate) -> Bool = { _ in true }
) throws {
    let offer = try a.connection.createOffer()
    let answer = try b.connection.createAnswer(to: mangleOffer(offer))
    try a.connection.setAnswer(mangleAnswer(answer))
    a.trickle { [weak b] in if $0.map(keep) ?? true { b?.connection.addRemoteCandidate($0) } }
    b.trickle { [weak a] in if $0.map(keep) ?? true { a?.connection.addRemoteCandidate($0) } }
}

extension PeerConnection {
    /// On a loaded machine the network thread may take longer than the limit of the product, which then gives older values.
    func statistics() -> PeerConnectionStatistics { statistics(within: .seconds(20)) }
}
