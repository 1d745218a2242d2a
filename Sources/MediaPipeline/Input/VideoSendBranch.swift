// The encoder of one media path: takes the input's frames to a connection and follows the connection's bitrate target.
// It knows RTP; it must not know how connections are established.
package import GStreamerKit
package import Log
import Synchronization
package import RTP
package import WebRTCTransport

// @unchecked: `delivery` belongs to one thread at a time, `entry` to the queue that calls `start` and `close`; the rest is
// constant or locked.
package final class VideoSendBranch: SendBranch, @unchecked Sendable {
    private let path: PathID
    private let input: InputChain
    private let settings: VideoSendSettings
    private let logger: Logger
    /// Time for which the thread that decodes this path's frames has worked.
    private let receiving: BusyTime

    /// In front of the encoder.
    private var entry: Pad?

    private struct State: Sendable {
        var encoder: (any VideoSender)?
        var target: BitrateTarget?
        /// RIDs of the layers that a participant receives, of which a single stream has an empty one; nil: all.
        var wanted: Set<String>?
        var isWanted: Bool { wanted.map { !$0.isEmpty } ?? true }
        /// The most frames a second.
        var framerate: Int
    }
    private let state: Mutex<State>
    /// Fraction of the frames that the CPU carries.
    private let cpuShare = Atomic(1.0)

    /// For the thread that delivers the frames, of which there is one at a time (`FrameLine`), and for `start` before it.
    private struct Delivery {
        /// The rate in the encoder's caps.
        var framerate: Int
        var load: CPULoadController
        var appliedBitrate = 0
        var ladder: DegradationLadder?
        /// The frame rate of the ladder.
        var limit = RateLimit()
        /// For the ladder's scale, from frames of one size.
        var scaler: (from: (width: Int, height: Int), to: (width: Int, height: Int), scaler: FrameScaler)?
        /// Size in the caps that the encoder has.
        var size = (width: 0, height: 0)
        /// Format of the frames, by the caps that the encoder has.
        var video: VideoInfo?
        /// For an encoder that takes no strides of a frame's own.
        var layout: (video: VideoInfo, pool: BufferPool)?

        init(framerate: Int) { (self.framerate, load) = (framerate, CPULoadController(frameRate: framerate)) }
    }
    private var delivery: Delivery

    /// - Parameter receiving: the time for which the thread that decodes this path's frames has worked.
    package init(
        path: PathID, input: InputChain, settings: VideoSendSettings, receiving: BusyTime, logger: Logger
    ) {
        self.path = path
        self.input = input
        self.settings = settings
        self.receiving = receiving
        self.logger = logger
        delivery = Delivery(framerate: settings.framerate)
        state = Mutex(State(framerate: settings.framerate))
    }

    /// Any thread.
    package var status: SendStatus {
        let encoder = state.withLock(\.encoder)
        return SendStatus(
            layers: encoder?.sentLayers ?? [], encoder: encoder?.encoders.first?.factoryName,
            codingTime: encoder?.codingTime ?? CodingTime(), cpuShare: cpuShare.load(ordering: .relaxed))
    }

    /// Any thread.
    package func apply(target: BitrateTarget) { state.withLock { $0.target = target } }

    /// Any thread.
    package func setFramerate(_ framerate: Int) { state.withLock { $0.framerate = framerate } }

    /// Makes the next frame a keyframe. Any thread.
    package func requestKeyframe() { state.withLock(\.encoder)?.requestKeyframe() }

    /// Encodes these layers alone, or nothing. Frames of an unwanted stream count as sent: only the service knows why
    /// no participant receives them, and a service that is gone is recognised by what it does not return. Any thread.
    package func setWanted(_ rids: Set<String>) {
        if !rids.isEmpty {
            let (encoder, wasWanted) = state.withLock { ($0.encoder, $0.isWanted) }
            encoder?.setWanted(rids)
            // The next frame is a keyframe, so this precedes it.
            if !wasWanted { encoder?.requestKeyframe() }
        }
        state.withLock { $0.wanted = rids }
    }

    /// Builds the encoder. Called on a queue that may block in GStreamer, as `stop` is.
    /// - Parameters:
    ///   - sink: accepts the encoder's RTP.
    ///   - markers: stamps frames, so that their delay can be measured.
    ///   - onEncoder: called for each encoder element, so that the application may configure it.
    ///   - onFrame: called with the size of each frame before it is encoded, on the thread that delivers it.
    package func start(
        _ parameters: RTPSendParameters, to sink: Pad, in bin: Bin, markers: LatencyMarkers?,
        onEncoder: (_ encoder: Element, _ followsBitrate: Bool) -> Void,
        onFrame: @escaping @Sendable (_ size: (width: Int, height: Int)) -> Void
    ) throws {
        let encoder = try makeEncoder(parameters)
        for each in encoder.encoders {
            logger.info("encoder: \(each.factoryName ?? "unknown"), \(parameters.codec.encodingName)")
            onEncoder(each, encoder.followsBitrate)
        }
        if let markers {
            encoder.encoders.first?.staticPad("src")?.addProbe(.buffer) { item in
                if case .buffer(let frame) = item { markers.encoded(frame) }
                return .pass
            }
        }
        let encoderSink = try bin.insert([encoder.bin], before: sink)
        let entry = Pad(name: "raw_in", direction: .source)
        entry.setActive(true)
        try entry.link(encoderSink)
        let (wanted, framerate) = state.withLock { state in
            state.encoder = encoder
            return (state.wanted, state.framerate)
        }
        self.entry = entry
        delivery = Delivery(framerate: framerate)
        if let wanted, !wanted.isEmpty { encoder.setWanted(wanted) }
        entry.push(Event.streamStart(id: "decart/raw", groupID: Event.nextGroupID()))
        pushCaps(on: entry, settings.size.current)
        entry.push(Event.timeSegment())
        input.addDelivery(path: path) { [weak self] frame in
            guard let self, frame.encoded == nil else { return true }
            let (isWanted, target, framerate) = self.state.withLock { ($0.isWanted, $0.target, $0.framerate) }
            guard isWanted else { return true }
            self.follow(framerate)
            if let target { self.follow(target, encoder) }
            guard let frame = self.reduced(frame) else { return false }
            onFrame(frame.size)
            self.push(frame, markers, into: encoder, entry)
            return true
        }
    }

    /// Lets no more frames through.
    package func stop() {
        input.removeDelivery(path: path)
        input.gate.setCarriedRate(framesPerSecond: nil, path: path)
    }

    /// Called after the connection has been closed and before the bin goes to NULL: unblocks a thread in the encoder.
    package func close() {
        // Released outside of the lock.
        _ = state.withLock { $0.encoder.take() }
        entry.take()?.setActive(false)
    }

    private func makeEncoder(_ parameters: RTPSendParameters) throws -> any VideoSender {
        do throws(GStreamerError) {
            return try makeLayers(parameters)
        } catch {
            guard !settings.encoder.isEmpty else { throw error }
            // The text of a link names elements that are not the user's.
            let need =
                error.code == .linkFailed ? "; it must take raw video and give \(parameters.codec.encodingName)" : ""
            throw GStreamerError(error.code, "the property encoder cannot be used: \(error.message)\(need)")
        }
    }

    private func makeLayers(_ parameters: RTPSendParameters) throws(GStreamerError) -> any VideoSender {
        let layers = settings.layers.filter { layer in parameters.layers.contains { $0.rid == layer.rid } }
        guard layers.count > 1 else {
            return try VideoEncoderBin(
                parameters: parameters, bitrate: settings.bitrate, encoderDescription: settings.encoder)
        }
        return try SimulcastEncoderBin(
            parameters: parameters, layers: layers, allocation: settings.allocation(of: layers),
            size: settings.size.current, bitrate: settings.bitrate, encoderDescription: settings.encoder)
    }

    // MARK: Frames (the thread that delivers them)

    /// The frame as the ladder has it; nil: it is left out.
    private func reduced(_ frame: EncoderFrame) -> EncoderFrame? {
        if let time = frame.runningTime, !delivery.limit.passes(time) { return nil }
        guard let scale = delivery.ladder?.level.scale, scale != .full else { return frame }
        let size = (width: scale.applied(to: frame.size.width), height: scale.applied(to: frame.size.height))
        if delivery.scaler.map({ $0.from != frame.size || $0.to != size }) ?? true {
            delivery.scaler = FrameScaler(from: frame.size, to: size).map { (frame.size, size, $0) }
        }
        // Memory that cannot be mapped keeps its size.
        guard let small = delivery.scaler?.scaler.scaled(frame.buffer) else { return frame }
        return EncoderFrame(buffer: small, size: size, runningTime: frame.runningTime)
    }

    private func push(_ frame: EncoderFrame, _ markers: LatencyMarkers?, into encoder: any VideoSender, _ entry: Pad) {
        if exchange(&delivery.size, with: frame.size) != frame.size {
            logger.debug("the encoder gets frames of \(frame.size.width)x\(frame.size.height)")
            encoder.setSize(width: frame.size.width, height: frame.size.height)
            pushCaps(on: entry, frame.size)
        }
        if let video = delivery.video { input.watch(frame.buffer, video) }
        let source =
            if let layout = delivery.layout {
                frame.buffer.inDefaultLayout(layout.video, from: layout.pool)
            } else { frame.buffer }
        guard let time = frame.runningTime, let buffer = source?.copyOfMetadata() else { return }
        buffer.pts = time
        buffer.dts = nil
        _ = entry.push(markers?.mark(buffer, size: frame.size, at: time) ?? buffer)
    }

    private func pushCaps(on entry: Pad, _ size: (width: Int, height: Int)) {
        let format = OutputFormat(width: size.width, height: size.height, framerate: (delivery.framerate, 1))
        guard let caps = try? Caps(format.capsText) else { return }
        entry.push(Event.caps(caps))
        let video = VideoInfo(caps: caps)
        delivery.video = video
        delivery.layout =
            if !entry.peerTakesStrides(caps), let video, let pool = BufferPool(size: video.size) {
                (video, pool)
            } else { nil }
    }

    /// Adapts bitrate, frame rate and size to the target before a frame enters the encoder, whose setters block while
    /// it encodes.
    private func follow(_ target: BitrateTarget, _ encoder: any VideoSender) {
        let bitrate = target.target
        if exchange(&delivery.appliedBitrate, with: bitrate) != bitrate { encoder.setBitrate(bitrate) }
        guard let made = encoder.made else { return }
        if delivery.ladder == nil {
            let size = settings.size.current
            delivery.ladder = DegradationLadder(
                width: size.width, height: size.height, frameRate: Double(delivery.framerate),
                preference: settings.degradation)
        }
        guard let level = delivery.ladder?.frame(target, made: made, now: MonotonicTime.now) else { return }
        delivery.limit.set(framesPerSecond: level.frameRate)
        let rate = level.frameRate.map { "\($0) fps" } ?? "the full frame rate"
        logger.debug(
            """
            degradation step: scale \(level.scale.numerator)/\(level.scale.denominator), \(rate), \
            because the target is \(bitrate / 1000) kbit/s
            """)
    }

    /// Adapts the frame rate to its limit and to the CPU.
    private func follow(_ framerate: Int) {
        if framerate != delivery.framerate {
            // Caps with the new rate precede the frame, and the steps depend on it.
            (delivery.framerate, delivery.size) = (framerate, (0, 0))
            (delivery.ladder, delivery.limit) = (nil, RateLimit())
            delivery.load = CPULoadController(frameRate: framerate)
            _ = (input.busy.takeLongest(), receiving.takeLongest())
            setCarriedRate()
        }
        let now = MonotonicTime.now
        guard delivery.load.needsReading(at: now) else { return }
        let counters = input.gate.counters
        var reading = CPULoadController.Reading()
        (reading.sending, reading.receiving) = (input.busy.total, receiving.total)
        reading.longestWork = max(input.busy.takeLongest(), receiving.takeLongest())
        (reading.framesIn, reading.framesSent) = (counters.framesIn, counters.framesSent)
        reading.framesLost = counters.droppedBusy
        guard delivery.load.frame(reading, now: now) else { return }
        let rate = delivery.load.frameRate
        logger.info(
            rate.map { "this machine is too busy for more than \($0) fps" } ?? "the CPU carries all frames again")
        setCarriedRate()
    }

    private func setCarriedRate() {
        cpuShare.store(delivery.load.share, ordering: .relaxed)
        input.gate.setCarriedRate(framesPerSecond: delivery.load.frameRate, path: path)
    }
}
