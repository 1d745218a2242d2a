import FoundationEssentials
import GStreamerKit
import WebRTCTransport

/// VP8 frames that are encoded once and sent repeatedly: media without the cost of an encoder.
struct Clip: Sendable {
    let frames: [[UInt8]]

    static let bitrate = 2_500_000
    static let caps = "video/x-vp8, profile=(string)0, width=(int)1280, height=(int)720, framerate=(fraction)30/1"

    /// Encodes 720p30 with the product's settings; the first frame is a keyframe.
    static func encode(frames count: Int) throws -> Clip {
        Clip(frames: try EncoderRun.encode(count, from: TestPattern()))
    }

    func write(to path: String) throws {
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        try encoder.encode(frames.map { Data($0) }).write(to: URL(filePath: path))
    }

    init(frames: [[UInt8]]) { self.frames = frames }

    /// Returns a function that finds the index of a frame by its first bytes and its size; nil for a frame that the clip does
    /// not have exactly once.
    func finder() -> (UnsafeRawBufferPointer) -> Int? {
        func key(_ frame: UnsafeRawBufferPointer) -> Int {
            var hasher = Hasher()
            hasher.combine(frame.count)
            hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: frame.prefix(64)))
            return hasher.finalize()
        }
        var indices: [Int: Int?] = [:]
        for (index, frame) in frames.enumerated() {
            let key = frame.withUnsafeBytes(key)
            indices[key] = indices[key] == nil ? .some(index) : .some(nil)
        }
        return { indices[key($0)] ?? nil }
    }

    init(contentsOf path: String) throws {
        frames = try PropertyListDecoder().decode([Data].self, from: Data(contentsOf: URL(filePath: path))).map(
            Array.init)
        guard !frames.isEmpty else { throw BenchError("\(path) holds no frames") }
    }

    /// Returns a function that loops over the clip's frames; it restarts at the keyframe after a gap or a keyframe
    /// request.
    func player(_ onFrame: @escaping (Int) -> Void = { _ in }) -> (Bool) -> Buffer {
        var index = 0
        return { afresh in
            if afresh { index = 0 }
            defer { index = (index + 1) % frames.count }
            onFrame(index)
            return frames[index].withUnsafeBytes { Buffer(copying: $0) }
        }
    }
}
