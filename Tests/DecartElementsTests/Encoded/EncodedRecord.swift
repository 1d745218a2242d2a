import GStreamerKit
import TestSupport
import Testing
import WebRTCTransport

/// Records the encoded frames that pass a pad: of H.264 a hash of the slices' NAL units, of VP8 one of the frame.
final class EncodedRecord: Sendable {
    struct Frame: Sendable, Equatable {
        var hash: UInt64
        var isKeyframe: Bool
        var pts: UInt64?
    }
    struct Seen: Sendable {
        var frames: [Frame] = []
        var caps: [String] = []
        var gaps = 0
        /// Force-key-unit events that went upstream.
        var requests: [ContinuousClock.Instant] = []
        var hashes: [UInt64] { frames.map(\.hash) }
        /// Each keyframe of H.264 has its parameter sets.
        var isRepaired = true
    }
    private let seen = Watched(Seen())

    init(_ pad: Pad) {
        // Only for the thread that pushes.
        nonisolated(unsafe) var lengthSize: Int?
        nonisolated(unsafe) var isH264 = false
        pad.addProbe([.buffer, .downstreamEvent, .upstreamEvent]) { [seen] item in
            switch item {
            case .event(let event):
                if let caps = event.caps {
                    isH264 = caps.first?.name == "video/x-h264"
                    lengthSize = caps.first?.string("stream-format") == "avc" ? 4 : nil
                    seen.change { $0.caps.append(caps.description) }
                }
                if event.kind == .gap { seen.change { $0.gaps += 1 } }
                if event.isForceKeyUnit { seen.change { $0.requests.append(.now) } }
            case .buffer(let buffer):
                let frame = buffer.withBytes { Self.read($0, isH264, lengthSize) }
                if let frame {
                    seen.change {
                        $0.frames.append(Frame(hash: frame.hash, isKeyframe: frame.isKeyframe, pts: buffer.pts))
                        if isH264, lengthSize == nil, frame.isKeyframe, !frame.hasSets { $0.isRepaired = false }
                    }
                }
            case .query: break
            }
            return .pass
        }
    }

    private static func read(
        _ bytes: UnsafeRawBufferPointer, _ isH264: Bool, _ lengthSize: Int?
    ) -> (hash: UInt64, isKeyframe: Bool, hasSets: Bool) {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ part: UnsafeRawBufferPointer) {
            for byte in part { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        }
        guard isH264 else {
            add(bytes)
            return (hash, (bytes.first ?? 1) & 1 == 0, true)
        }
        let units =
            lengthSize.map { EncodedVideoReader.units(in: bytes, lengthSize: $0) }
            ?? EncodedVideoReader.units(in: bytes)
        var types: Set<UInt8> = []
        for unit in units {
            let type = bytes[unit.lowerBound] & 0x1f
            types.insert(type)
            if (1...5).contains(type) { add(UnsafeRawBufferPointer(rebasing: bytes[unit])) }
        }
        return (hash, types.contains(5), types.isSuperset(of: [7, 8]))
    }

    var current: Seen { seen.value }
    func wait(until condition: (Seen) -> Bool) -> Bool { seen.wait(until: condition) }
    func waitForFrames(_ count: Int) -> Bool {
        let target = seen.read(\.frames.count) + count
        return wait { $0.frames.count >= target }
    }
}
