// Between decoder and encoder: pictures are painted on the pipeline's own thread.
import GStreamerKit

/// Raw video in; painted I420 leaves through a pad of no element: linked all the way round, the pipeline would be a
/// ring, and a bin cannot tell in which order the states of a ring change. Where pictures come faster than they can be
/// painted and encoded, the oldest go: what comes back may get choppy but never late. Only a stand-in that was told to be
/// more patient than usual takes the pictures that come at once after a retransmission.
struct PaintingBin {
    let bin: Bin
    /// Until it is linked, what is painted goes nowhere.
    let painted: Pad

    /// - Parameter latency: how long a lost packet was waited for before this.
    init(painter: FramePainter, faults: MediaFaults, latency: Duration) throws {
        let waiting = 3 + max(0, Int(latency / .milliseconds(33)) - 12)
        let hold = max(0, Int(painter.delay / .nanoseconds(1)))
        let thinking = hold > 0 ? "\(SoundEcho.holding(hold)) ! " : ""
        let bin = try Bin(
            description: """
                \(thinking)queue leaky=downstream max-size-buffers=\(waiting) max-size-bytes=0 max-size-time=0 \
                ! videoconvert ! videoscale ! capsfilter name=size caps=video/x-raw,format=I420 \
                ! fakesink name=end sync=false async=false
                """,
            ghostUnlinkedPads: true)
        guard let end = bin.child(named: "end")?.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the fakesink has no pad")
        }
        let painted = Pad(name: "painted", direction: .source)
        self.bin = bin
        self.painted = painted
        // Both live on the one thread that pushes into this pad.
        var video: VideoInfo?
        var frozen: FrozenPicture?
        let size = bin.child(named: "size")
        var isHalved = false
        end.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event):
                if let caps = event.caps {
                    video = VideoInfo(caps: caps)
                    painter.audience.set(caps: caps)
                }
                if [.streamStart, .caps, .segment].contains(event.kind) { painted.push(event) }
                return .pass
            case .buffer(let buffer):
                guard let video, !painter.isPaused else { return .drop }
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
                if hold > 0 { picture.pts = picture.pts.map { $0 &+ UInt64(hold) } }
                Self.stamp(picture, now: size?.currentRunningTime)
                painter.noteSent()
                painter.audience.show(picture)
                _ = painted.push(picture)
                return .drop
            case .query:
                return .pass
            }
        }
    }

    /// From the next picture on.
    private static func halve(_ size: Element?, _ video: VideoInfo) {
        let width = max(video.width / 4 * 2, 16)
        let height = max(video.height / 4 * 2, 16)
        guard let caps = try? Caps("video/x-raw,format=I420,width=\(width),height=\(height)") else { return }
        size?.set("caps", caps: caps)
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
