// Stands between decoder and encoder and paints frames on the pipeline's streaming thread.
import DecartProtocol
import GStreamerKit
import WebRTCTransport

/// Takes raw video; painted I420 frames leave through a pad that belongs to no element. With links all the way round,
/// the pipeline would be a ring, for which a bin cannot order state changes. If frames arrive faster than they can be
/// painted and encoded, the queue drops the oldest: the output may stutter but is never late. It holds the burst of frames
/// that a retransmission releases.
struct PaintingBin {
    let bin: Bin
    /// Drops frames until it is linked.
    let painted: Pad

    /// - Parameter keepsTrailers: Painted frames keep the trailers of their input frames; those for viewers do in any case.
    init(
        painter: FramePainter, faults: MediaFaults, keepsTrailers: Bool = false, trailersHaveTimeAlone: Bool = false
    ) throws {
        let hold = max(0, Int(painter.delay / .nanoseconds(1)))
        let thinking = hold > 0 ? "\(AudioEcho.holding(hold)) ! " : ""
        let bin = try Bin(
            description: """
                \(thinking)queue leaky=downstream max-size-buffers=\(Self.maximumWaiting) max-size-bytes=0 \
                max-size-time=0 ! videoconvert name=convert ! videoscale \
                ! capsfilter name=size caps=video/x-raw,format=I420 ! fakesink name=end sync=false async=false
                """,
            ghostUnlinkedPads: true)
        let painted = Pad(name: "painted", direction: .source)
        self.bin = bin
        self.painted = painted
        // These are used only by the one streaming thread that pushes into the bin's end.
        /// The frame that replaces later ones with the same caps.
        nonisolated(unsafe) var frozen: (frame: Buffer, caps: Caps)?
        nonisolated(unsafe) var isHalved = false
        nonisolated(unsafe) var isRounded = false
        let size = bin.child(named: "size")
        let behindQueue = bin.child(named: "convert")?.staticPad("sink")
        behindQueue?.dropFramesOfOtherCaps()
        behindQueue?.addProbe(.downstreamEvent) { item in
            guard case .event(let event) = item, let video = event.caps.flatMap(VideoInfo.init(caps:)) else {
                return .pass
            }
            painter.measure { $0.size = MediaStatistics.Size(width: video.width, height: video.height) }
            if painter.isFullHD {
                Self.enlarge(size, video)
            } else if isRounded || (video.width | video.height) & 1 != 0 {
                // Encoders of 4:2:0 take even lengths only.
                isRounded = true
                Self.set(size, max(video.width & ~1, 2), max(video.height & ~1, 2))
            }
            return .pass
        }
        try bin.divertEnd(to: painted) { buffer, caps in
            guard let video = VideoInfo(caps: caps), !painter.isPaused else { return }
            faults.frameArrived()
            painter.viewers.input?.show(buffer, caps)
            if !isHalved, faults.isOn(.capsChange) {
                isHalved = true
                Self.set(size, max(video.width / 4 * 2, 16), max(video.height / 4 * 2, 16))
            }
            // Drop a frame that cannot be painted: it must not go back untransformed.
            guard var output = Self.paint(buffer, video, painter) else { return }
            if !faults.isOn(.freeze) {
                frozen = nil
            } else if let shown = frozen {
                if shown.caps == caps { output = output.showing(shown.frame) }
            } else {
                frozen = output.copyOfMetadata().map { ($0, caps) }
            }
            guard !faults.isOn(.silent) else { return }
            Self.measure(output, now: size?.currentRunningTime, painter)
            if hold > 0 { output.pts = output.pts.map { $0 &+ UInt64(hold) } }
            Self.stamp(output, now: size?.currentRunningTime)
            painter.noteSent()
            painter.viewers.show(output, caps)
            if !keepsTrailers {
                output[.trailer] = nil
            } else if trailersHaveTimeAlone, let trailer = output[.trailer] {
                output[.trailer] = FrameTrailer(timestamp: FrameTrailer(reading: trailer).timestamp).bytes
            }
            _ = painted.pushIfLinked(output)
        }
    }

    private static let maximumWaiting = 8

    private static func measure(_ output: Buffer, now: ClockTime?, _ painter: FramePainter) {
        guard let now, let time = output.pts, now >= time else { return }
        painter.measure { $0.delay = .nanoseconds(Int64(clamping: now &- time)) }
    }

    /// Keeps the shape, as the service does: 1884x1080 for 1088x624 (DecartAI/sdk#140).
    private static func enlarge(_ size: Element?, _ video: VideoInfo) {
        func scaled(_ longer: Int, _ shorter: Int) -> Int { (longer * 540 + shorter - 1) / shorter * 2 }
        // A client's frame of another shape would take too much memory.
        guard min(video.width, video.height) > 0, max(video.width, video.height) / min(video.width, video.height) < 4
        else { return }
        if video.width >= video.height {
            set(size, scaled(video.width, video.height), 1080)
        } else {
            set(size, 1080, scaled(video.height, video.width))
        }
    }

    private static func set(_ size: Element?, _ width: Int, _ height: Int) {
        guard let caps = try? Caps("video/x-raw,format=I420,width=\(width),height=\(height)") else { return }
        size?.set("caps", caps: caps)
    }

    /// Restamps a frame that waited for a retransmission as a current one, as a service does that generates its own
    /// frames. The original timestamp is so old that the frame would use up the receiver's latency before it arrives.
    private static func stamp(_ output: Buffer, now: ClockTime?) {
        guard let now, let time = output.pts, now > time &+ usualDelay else { return }
        output.pts = now &- usualDelay
        output.dts = nil
    }
    /// Normal delay of decoding and painting, ns; frames within it keep their even intervals. It is taken from the
    /// receiver's latency.
    private static let usualDelay: ClockTime = 50_000_000

    private static func paint(_ buffer: Buffer, _ video: VideoInfo, _ painter: FramePainter) -> Buffer? {
        guard let writable = buffer.madeWritable() else { return nil }
        let isPainted = writable.withVideoPlanes(video, writable: true) { planes in
            guard let frame = I420Frame(planes) else { return false }
            painter.paint(frame)
            return true
        }
        return isPainted == true ? writable : nil
    }
}

extension Bin {
    /// Gives the buffers that arrive at the fakesink `end`, which drops them, to `handle`, with their caps. Their events go
    /// on to `pad`.
    func divertEnd(to pad: Pad, _ handle: @escaping @Sendable (Buffer, Caps) -> Void) throws {
        guard let end = child(named: "end")?.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the fakesink has no pad")
        }
        // Used only by the one streaming thread that pushes into this pad.
        nonisolated(unsafe) var caps: Caps?
        end.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event):
                caps = event.caps ?? caps
                if [.streamStart, .caps, .segment].contains(event.kind) { pad.push(event) }
                return .pass
            case .buffer(let buffer):
                if let caps { handle(buffer, caps) }
                return .drop
            case .query:
                return .pass
            }
        }
    }
}

extension Buffer {
    /// Another frame's pixels at the time of this frame.
    fileprivate func showing(_ other: Buffer) -> Buffer {
        guard let copy = other.copyOfMetadata() else { return self }
        (copy.pts, copy.dts, copy.duration, copy[.trailer]) = (pts, dts, duration, self[.trailer])
        return copy
    }
}

extension I420Frame {
    /// Wraps the planes of a mapped frame, which owns their memory.
    fileprivate init?(_ planes: [FramePlane]) {
        let planes = planes.compactMap {
            BytePlane(base: $0.base, stride: $0.stride, width: $0.layout.columns, height: $0.layout.rows)
        }
        guard planes.count == 3 else { return nil }
        self.init(luma: planes[0], blueChroma: planes[1], redChroma: planes[2])
    }
}
