// The input's encoded frames: reads their format, repairs them, and carries keyframe requests back. Nothing here decodes
// or waits; upstream's thread forwards the frames.
import EventLoopThreads
import RTP
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: the pad is thread-safe; mutable state is in the mutex.
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

    private struct State {
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
    private let state = StateLock(State())
    private let sink: Pad
    /// Upstream's handler of a request may block, and requests come on the network thread.
    private let requests = SerialQueue(label: "decart-keyframes")

    /// - Parameter sink: the element's sink pad.
    init(sink: Pad) { self.sink = sink }

    /// The input is encoded now.
    package var isOn: Bool { state.read { $0.reader != nil } }
    /// Format of the last keyframe; nil before the first one, and for a raw input.
    package var format: EncodedVideoFormat? { state.read(\.format) }

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
        state.withLock { state in
            guard let codec else {
                (state.reader, state.format, state.record) = (nil, nil, nil)
                return
            }
            // The same caps again, as after a reconnection upstream: the parameter sets that have come still hold.
            guard state.reader?.codec != codec || state.record != record else { return }
            state.record = record
            state.reader = EncodedVideoReader(codec: codec, configuration: record) ?? EncodedVideoReader(codec: codec)
        }
        return codec != nil
    }

    /// Reads a frame, on upstream's thread.
    package func read(_ buffer: Buffer) -> Reading {
        // Mapping runs code of the memory's owner, so it comes before the lock.
        buffer.withBytes { bytes in read(bytes, of: buffer) } ?? .ignored
    }

    private func read(_ bytes: UnsafeRawBufferPointer, of buffer: Buffer) -> Reading {
        state.withLock { state in
            guard !state.hasFailed, let codec = state.reader?.codec, let frame = state.reader?.read(bytes)
            else { return .ignored }
            let read = state.reader?.format
            if frame.isReordered {
                state.hasFailed = true
                return .unusable(
                    "The H.264 input has B-frames, which WebRTC cannot carry. Encode without them, "
                        + "for example with x264enc bframes=0.")
            }
            let isNew = frame.isKeyframe && read != state.format
            if frame.isKeyframe { state.format = read }
            // The stream may have begun long before this element joined it.
            if state.format == nil, state.requests.allows(at: MonotonicTime.now) { requestKeyframe() }
            state.sequence &+= 1
            let size = state.format.map { ($0.size.width, $0.size.height) } ?? (0, 0)
            let rewritten = frame.rewritten.map { $0.withUnsafeBytes(Buffer.init(copying:)) }
            rewritten?.isDeltaUnit = !frame.isKeyframe
            return .frame(
                EncoderFrame(
                    buffer: rewritten ?? buffer, size: size, runningTime: nil,
                    encoded: EncodedFrameInfo(
                        codec: codec, isKeyframe: frame.isKeyframe, sequence: state.sequence)),
                isNew: isNew)
        }
    }

    /// Frames of another stream, or from behind a flush, do not depend on those before.
    package func breakOff() {
        state.withLock { state in
            state.sequence &+= 1
            state.backlog.clear()
        }
    }

    // MARK: Frames before the session

    /// Keeps a frame that no media path takes yet. Called on upstream's thread.
    package func hold(_ frame: EncoderFrame) {
        let (isKeyframe, size) = (frame.encoded?.isKeyframe ?? false, frame.buffer.size)
        state.withLock { $0.backlog.append(frame, isKeyframe: isKeyframe, bytes: size) }
    }

    /// The frames that were kept, oldest first. Called on upstream's thread.
    package func takeHeld() -> [EncoderFrame] { state.withLock { $0.backlog.take() } }

    package func dropHeld() { state.withLock { $0.backlog.clear() } }

    /// Drops the rest of the stream.
    package func fail() { state.withLock { $0.hasFailed = true } }

    /// Asks upstream for a keyframe. Any thread.
    func requestKeyframe() {
        // The reader repeats the parameter sets, so that no encoder needs to send them in a buffer of their own.
        requests.async { [sink] in sink.push(Event.forceKeyUnitUpstream(allHeaders: false)) }
    }

    /// Called after a stop.
    func reset() { state.withLock { $0 = State() } }
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
