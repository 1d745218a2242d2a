// The input's encoded frames: reads their format, repairs them, and carries keyframe requests back. Nothing here decodes
// or waits; upstream's thread forwards the frames.
import EventLoopThreads
import RTP
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: the pad is thread-safe; `stream` belongs to upstream's thread, and to the one that flushes or stops the pad
// while that is not in it; others read `isEncoded`
// and `published`.
package final class EncodedInput: @unchecked Sendable {
    package static let caps =
        "video/x-h264, stream-format=(string){ byte-stream, avc }, alignment=(string)au; video/x-vp8"

    package enum Reading: Sendable {
        /// - Parameter isNew: the format differs from that of the last keyframe.
        case frame(EncoderFrame, isNew: Bool)
        /// A sentence for the user: the stream cannot be sent.
        case unusable(String)
        case ignored
    }

    private struct Stream {
        var reader: EncodedVideoReader?
        var format: EncodedVideoFormat?
        var sequence: UInt64 = 0
        /// An error was reported; the rest of the stream is dropped.
        var hasFailed = false
        /// Configuration of `reader`, for AVC.
        var record: [UInt8]?
        var backlog = EncodedBacklog<EncoderFrame>()
        /// Limits the keyframe requests before the first keyframe.
        var requests = Throttle(.seconds(1))
    }
    private var stream = Stream()
    /// There is a reader.
    private let isEncoded = Atomic(false)
    /// The format of `stream`.
    private let published = Mutex<EncodedVideoFormat?>(nil)
    private let sink: Pad
    /// Upstream's handler of a request may block, and requests come on the network thread.
    private let requests = SerialQueue(label: "decart-keyframes")

    /// - Parameter sink: the element's sink pad.
    init(sink: Pad) { self.sink = sink }

    /// The input is encoded now.
    package var isOn: Bool { isEncoded.load(ordering: .acquiring) }
    /// Format of the last keyframe; nil before the first one, and for a raw input.
    package var format: EncodedVideoFormat? { published.withLock { $0 } }

    /// True if upstream will send encoded video and no other, as far as its caps show before the first frame.
    package var isExpected: Bool {
        guard sink.isLinked else { return false }
        let possible = sink.queryPeerCaps(filter: nil)
        return !possible.isEmpty && !possible.isAny
            && possible.structures.allSatisfy { VideoCodec(capsName: $0.name) != nil }
    }

    /// Called on upstream's thread.
    /// - Returns: true if the caps are encoded.
    package func apply(caps: Caps) -> Bool {
        let structure = caps.first
        let codec = structure.flatMap { VideoCodec(capsName: $0.name) }
        // An AVC stream without its record has parameter sets in the frames (avc3); they are found there.
        let record = structure?["codec_data"]?.buffer.flatMap { $0.withBytes { Array($0) } }
        defer { publish() }
        guard let codec else {
            (stream.reader, stream.format, stream.record) = (nil, nil, nil)
            return false
        }
        // The same caps again, as after a reconnection upstream: the parameter sets that have come still hold.
        guard stream.reader?.codec != codec || stream.record != record else { return true }
        stream.record = record
        stream.reader = EncodedVideoReader(codec: codec, configuration: record) ?? EncodedVideoReader(codec: codec)
        return true
    }

    private func publish() {
        isEncoded.store(stream.reader != nil, ordering: .releasing)
        published.withLock { $0 = stream.format }
    }

    /// Reads a frame, on upstream's thread.
    package func read(_ buffer: Buffer) -> Reading {
        buffer.withBytes { bytes in read(bytes, of: buffer) } ?? .ignored
    }

    private func read(_ bytes: UnsafeRawBufferPointer, of buffer: Buffer) -> Reading {
        guard !stream.hasFailed, let codec = stream.reader?.codec, let frame = stream.reader?.read(bytes)
        else { return .ignored }
        let read = stream.reader?.format
        if frame.isReordered {
            stream.hasFailed = true
            return .unusable(
                "The H.264 input has B-frames, which WebRTC cannot carry. Encode without them, "
                    + "for example with x264enc bframes=0.")
        }
        let isNew = frame.isKeyframe && read != stream.format
        if isNew {
            stream.format = read
            publish()
        }
        // The stream may have begun long before this element joined it.
        if stream.format == nil, stream.requests.allows(at: MonotonicTime.now) { requestKeyframe() }
        stream.sequence &+= 1
        let size = stream.format.map { ($0.size.width, $0.size.height) } ?? (0, 0)
        let rewritten = frame.rewritten.map { $0.withUnsafeBytes(Buffer.init(copying:)) }
        rewritten?.isDeltaUnit = !frame.isKeyframe
        return .frame(
            EncoderFrame(
                buffer: rewritten ?? buffer, size: size, runningTime: nil,
                encoded: EncodedFrameInfo(codec: codec, isKeyframe: frame.isKeyframe, sequence: stream.sequence)),
            isNew: isNew)
    }

    /// Frames of another stream, or from behind a flush, do not depend on those before.
    package func breakOff() {
        stream.sequence &+= 1
        stream.backlog.clear()
    }

    // MARK: Frames before the session

    /// Keeps a frame that no media path takes yet. Called on upstream's thread.
    package func hold(_ frame: EncoderFrame) {
        stream.backlog.append(frame, isKeyframe: frame.encoded?.isKeyframe ?? false, bytes: frame.buffer.size)
    }

    /// The frames that were kept, oldest first. Called on upstream's thread.
    package func takeHeld() -> [EncoderFrame] { stream.backlog.take() }

    package func dropHeld() { stream.backlog.clear() }

    /// Drops the rest of the stream. Called on upstream's thread.
    package func fail() { stream.hasFailed = true }

    /// Asks upstream for a keyframe. Any thread.
    func requestKeyframe() {
        // The reader repeats the parameter sets, so that no encoder needs to send them in a buffer of their own.
        requests.async { [sink] in sink.push(Event.forceKeyUnitUpstream(allHeaders: false)) }
    }

    /// Called after a stop.
    func reset() {
        stream = Stream()
        publish()
    }
}

extension VideoCodec {
    /// The codecs that pass without being decoded.
    package init?(capsName: String) {
        switch capsName {
        case "video/x-h264": self = .h264
        case "video/x-vp8": self = .vp8
        default: return nil
        }
    }
}
