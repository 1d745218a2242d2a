// The media of one session: peer connection, decoder, painter, encoder in a pipeline of its own. The only file here that
// touches GStreamer; it knows no WebSocket and no JSON.
//
// Threads: everything is done on `queue`, never on the event loop; pictures are painted on the pipeline's own thread.
import DecartProtocol
import Dispatch
import GStreamerKit
import ICE
import WebRTCTransport

// @unchecked: mutable fields are touched on `queue` only.
final class GStreamerMediaSession: MediaSession, @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.media")
    private let bitrate: Int
    private let latency: Duration
    private let painter: FramePainter
    private let faults: MediaFaults
    private let onEvent: @Sendable (MediaEvent) -> Void

    // MARK: queue
    private var pipeline: Pipeline?
    private var connection: PeerConnection?
    private var encoder: VideoEncoderBin?
    private var painted: Pad?
    private var busTimer: (any DispatchSourceTimer)?
    private var isOver = false

    init(
        bitrate: Int, latency: Duration, painter: FramePainter, faults: MediaFaults, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) {
        self.bitrate = bitrate
        self.latency = latency
        self.painter = painter
        self.faults = faults
        self.onEvent = onEvent
    }

    func start(offer: String) {
        queue.async { [self] in
            do {
                let answer = try makePipeline(answering: offer)
                if !isOver { onEvent(.answered(sdp: answer)) }
            } catch {
                fail("the offer could not be taken: \(error)")
            }
        }
    }

    func addRemoteCandidate(_ candidate: CandidateMessage?) {
        queue.async { [self] in
            connection?.addRemoteCandidate(
                candidate.map {
                    ICECandidate(candidate: $0.candidate, sdpMid: $0.sdpMid, sdpMLineIndex: $0.sdpMLineIndex)
                })
        }
    }

    func add(_ faults: [Fault]) {
        self.faults.add(faults)
    }

    func stop(completion: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            isOver = true
            tearDown()
            completion()
        }
    }

    // MARK: Pipeline

    private func makePipeline(answering offer: String) throws -> String {
        GStreamerRuntime.initialise()
        // Candidates are found while the answer is still being made: by way of the queue they follow it.
        var configuration = PeerConnectionConfiguration()
        // Patient, as a browser's buffer becomes on a bad path; pictures that come in order are not held up by it.
        configuration.jitterBufferLatency = latency
        configuration.bitrateRange = min(100_000, bitrate)...bitrate
        let connection = try PeerConnection(configuration: configuration) { [weak self] event in
            guard let self else { return }
            self.queue.async { self.handle(event) }
        }
        let pipeline = Pipeline()
        pipeline.add(connection.bin)
        self.connection = connection
        self.pipeline = pipeline

        let answer = try connection.createAnswer(to: offer)
        guard var parameters = connection.sendParameters else {
            throw PeerConnectionError(.rejected, "no video was negotiated")
        }
        if faults.contains(.wrongSSRC) { parameters.ssrc = parameters.ssrc &+ 0x1234_5678 }
        let decoder = try VideoDecoderBin.make(codec: parameters.codec)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: bitrate)
        // A pad of no element between painter and encoder: linked all the way round, the pipeline would be a ring, and a
        // bin cannot tell in which order the states of a ring change.
        let painted = Pad(name: "painted", direction: .source)
        let painting = try makePaintingBin(to: painted)
        addGarbageProbe(to: encoder)
        self.encoder = encoder
        self.painted = painted
        pipeline.add([decoder, painting, encoder.bin])
        try link(connection.bin, "rtp_src", decoder, "sink")
        try decoder.link(painting)
        guard let toEncoder = encoder.bin.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the encoder has no sink pad")
        }
        try painted.link(toEncoder)
        painted.setActive(true)
        try link(encoder.bin, "src", connection.bin, "rtp_sink")
        // Before the answer leaves: no packet must meet a pipeline that does not run.
        guard pipeline.setState(.playing) != .failure else {
            throw PeerConnectionError(.wrongState, "the pipeline does not start")
        }
        watchBus(of: pipeline)
        return answer
    }

    /// Raw video in; painted I420 leaves through the pad. Where pictures come faster than they can be painted and
    /// encoded, the oldest go: what comes back may get choppy but never late. Only a stand-in that was told to be more
    /// patient than usual takes the pictures that come at once after a retransmission.
    private func makePaintingBin(to painted: Pad) throws -> Bin {
        let waiting = 3 + max(0, latency / .milliseconds(33) - 12)
        let bin = try Bin(
            description: """
                queue leaky=downstream max-size-buffers=\(Int(waiting)) max-size-bytes=0 max-size-time=0 \
                ! videoconvert ! videoscale ! capsfilter name=size caps=video/x-raw,format=I420 \
                ! fakesink name=end sync=false async=false
                """,
            ghostUnlinkedPads: true)
        guard let end = bin.child(named: "end")?.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the fakesink has no pad")
        }
        // Both live on the one thread that pushes into this pad.
        var video: VideoInfo?
        var frozen: FrozenPicture?
        let size = bin.child(named: "size")
        var isHalved = false
        end.addProbe([.buffer, .downstreamEvent]) { [painter, painted, faults] item in
            switch item {
            case .event(let event):
                if let caps = event.caps { video = VideoInfo(caps: caps) }
                if [.streamStart, .caps, .segment].contains(event.kind) { painted.push(event) }
                return .pass
            case .buffer(let buffer):
                guard let video else { return .drop }
                faults.pictureCame()
                if !isHalved, faults.isOn(.capsChange) {
                    isHalved = true
                    Self.halve(size, video)
                }
                // A picture that cannot be painted must not go back as the camera took it.
                let picture = Self.paint(buffer, video, painter) { frame in
                    guard faults.isOn(.freeze) else { return }
                    if let frozen { frozen.show(on: frame) } else { frozen = FrozenPicture(frame) }
                }
                guard let picture, !faults.isOn(.silent) else { return .drop }
                Self.stamp(picture, now: size?.currentRunningTime)
                painter.noteSent()
                _ = painted.push(picture)
                return .drop
            case .query:
                return .pass
            }
        }
        return bin
    }

    /// From the next picture on.
    private static func halve(_ size: Element?, _ video: VideoInfo) {
        let width = max(video.width / 4 * 2, 16)
        let height = max(video.height / 4 * 2, 16)
        guard let caps = try? Caps("video/x-raw,format=I420,width=\(width),height=\(height)") else { return }
        size?.set("caps", caps: caps)
    }

    /// Spoils pictures between encoder and payloader, where they are whole.
    private func addGarbageProbe(to encoder: VideoEncoderBin) {
        guard let payloader = encoder.bin.allElements.first(where: { $0.factoryName?.hasSuffix("pay") ?? false }),
            let sink = payloader.staticPad("sink")
        else { return }
        sink.addProbe(.buffer) { [faults] item in
            guard case .buffer(let buffer) = item, faults.isOn(.garbage),
                let copy = buffer.withBytes({ Buffer(copying: $0) })
            else { return .pass }
            (copy.pts, copy.dts, copy.duration) = (buffer.pts, buffer.dts, buffer.duration)
            _ = copy.withMutableBytes(Garbage.spoil)
            return .replace(copy)
        }
    }

    private static func paint(
        _ buffer: Buffer, _ video: VideoInfo, _ painter: FramePainter, _ bend: (I420Frame) -> Void
    ) -> Buffer? {
        guard let writable = buffer.madeWritable() else { return nil }
        let isPainted = writable.withVideoPlanes(video, writable: true) { planes in
            guard let frame = I420Frame(planes, video) else { return false }
            painter.paint(frame)
            bend(frame)
            return true
        }
        return isPainted == true ? writable : nil
    }

    /// A picture that waited for a retransmission is sent as one of now, as by a service that makes its own pictures:
    /// with the time at which it should have come, it would have used up the receiver's patience on the way here.
    private static func stamp(_ picture: Buffer, now: ClockTime?) {
        guard let now, let time = picture.pts, now > time &+ usualDelay else { return }
        picture.pts = now &- usualDelay
        picture.dts = nil
    }
    /// Of decoding and painting: what comes in time keeps its even intervals.
    private static let usualDelay: ClockTime = 100_000_000

    private func link(_ upstream: Element, _ source: String, _ downstream: Element, _ sink: String) throws {
        guard let source = upstream.staticPad(source), let sink = downstream.staticPad(sink) else {
            throw GStreamerError(.linkFailed, "a pad is missing")
        }
        try source.link(sink)
    }

    // MARK: Events

    private func handle(_ event: PeerConnectionEvent) {
        guard !isOver else { return }
        switch event {
        case .localCandidate(let candidate):
            onEvent(
                .localCandidate(
                    CandidateMessage(
                        candidate: candidate.candidate, sdpMid: candidate.sdpMid,
                        sdpMLineIndex: candidate.sdpMLineIndex)))
        case .gatheringComplete:
            onEvent(.localCandidate(nil))
        case .stateChanged(.failed(let error)):
            fail(error.message)
        case .bitrateTarget(let target):
            encoder?.setBitrate(min(target.target, bitrate))
        case .stateChanged, .iceConnected, .remoteBitrateEstimate, .warning:
            break
        }
    }

    /// Nobody runs a main loop here: a timer empties the bus, which would grow for ever otherwise.
    private func watchBus(of pipeline: Pipeline) {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + .milliseconds(100), repeating: .milliseconds(100), leeway: .milliseconds(50))
        let bus = pipeline.bus
        timer.setEventHandler { [weak self] in
            while let message = bus.next(timeout: .zero) {
                if message.kind == .error { self?.fail("the media pipeline failed: \(message.problem?.text ?? "")") }
            }
        }
        timer.resume()
        busTimer = timer
    }

    /// Once: what follows a failure is not news.
    private func fail(_ words: String) {
        guard !isOver else { return }
        isOver = true
        onEvent(.failed(words))
    }

    /// The order is the peer connection's: close, bin to NULL, out of the pipeline, dismantle.
    private func tearDown() {
        busTimer?.cancel()
        busTimer = nil
        connection?.close()
        painted?.setActive(false)
        pipeline?.setState(.null)
        if let connection {
            pipeline?.remove(connection.bin)
            connection.dismantle()
        }
        painted = nil
        encoder = nil
        connection = nil
        pipeline = nil
    }
}

extension I420Frame {
    /// The planes of a mapped frame; their memory is the mapping's, whose size follows from stride and height.
    fileprivate init?(_ planes: [VideoPlane], _ video: VideoInfo) {
        guard planes.count == 3, planes.allSatisfy({ $0.stride > 0 }) else { return nil }
        func plane(_ index: Int, _ width: Int, _ height: Int) -> Plane? {
            // The last row need not be padded to the stride.
            let bytes = planes[index].stride &* (height &- 1) &+ width
            let memory = UnsafeMutableRawBufferPointer(start: planes[index].base, count: bytes)
            return Plane(memory, stride: planes[index].stride, width: width, height: height)
        }
        let width = video.width / 2 &+ video.width % 2
        let height = video.height / 2 &+ video.height % 2
        guard let luma = plane(0, video.width, video.height), let blueChroma = plane(1, width, height),
            let redChroma = plane(2, width, height)
        else { return nil }
        self.init(luma: luma, blueChroma: blueChroma, redChroma: redChroma)
    }
}
