package import GStreamerKit

extension Buffer {
    /// The samples of each plane, row by row without padding; nil if the frame cannot be mapped.
    package func samples(_ video: VideoInfo) -> [[UInt8]]? {
        withVideoPlanes(video, writable: false) { $0.map(\.samples) }
    }
}

extension FramePlane {
    package var samples: [UInt8] {
        (0..<layout.rows).flatMap { UnsafeBufferPointer(start: base + $0 * stride, count: layout.rowBytes) }
    }

    package var mean: Double {
        let samples = samples
        return Double(samples.reduce(0) { $0 + Int($1) }) / Double(samples.count)
    }
}
