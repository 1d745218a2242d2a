import DecartProtocol
import GStreamerKit

/// 720p frames that cost an encoder as much as a camera's: panning coarse and fine texture with sensor noise. Each
/// carries its number as a latency marker, which survives a codec.
struct TestPattern: Sendable {
    static let width = 1280
    static let height = 720
    static let caps =
        "video/x-raw, format=(string)I420, width=(int)1280, height=(int)720, framerate=(fraction)30/1, "
        + "pixel-aspect-ratio=(fraction)1/1, interlace-mode=(string)progressive, colorimetry=(string)bt601"

    private static let margin = 64
    private let texture: [UInt8]
    private let stride = width + margin

    init() {
        var generator = Noise(state: 1)
        var texture = [Double](repeating: 128, count: (Self.width + Self.margin) * (Self.height + Self.margin))
        // Octaves of interpolated noise: amplitude falls with frequency, as in natural images.
        for (cell, amplitude) in [(64, 60.0), (32, 30.0), (16, 15.0), (8, 7.0), (4, 3.5)] {
            let columns = stride / cell + 2
            let rows = (Self.height + Self.margin) / cell + 2
            let lattice = (0..<columns * rows).map { _ in Double(generator.next() % 2001) / 1000 - 1 }
            for y in 0..<Self.height + Self.margin {
                let row = y / cell * columns
                let down = Double(y % cell) / Double(cell)
                for x in 0..<stride {
                    let right = Double(x % cell) / Double(cell)
                    let at = row + x / cell
                    let upper = lattice[at] * (1 - right) + lattice[at + 1] * right
                    let lower = lattice[at + columns] * (1 - right) + lattice[at + columns + 1] * right
                    texture[y * stride + x] += (upper * (1 - down) + lower * down) * amplitude
                }
            }
        }
        self.texture = texture.map { UInt8(max(16, min(235, $0))) }
    }

    /// Returns the frame with this number, which is stamped into it.
    func frame(_ number: Int) -> Buffer {
        let luma = Self.width * Self.height
        let buffer = Buffer(size: luma * 3 / 2)
        _ = buffer.withMutableBytes { bytes in
            let dx = number % Self.margin
            let dy = number / 2 % Self.margin
            var noise = Noise(state: UInt64(number + 1))
            texture.withUnsafeBytes { texture in
                for y in 0..<Self.height {
                    let from = (y + dy) * stride + dx
                    let row = UnsafeMutableRawBufferPointer(rebasing: bytes[y * Self.width..<(y + 1) * Self.width])
                    row.copyMemory(from: UnsafeRawBufferPointer(rebasing: texture[from..<from + Self.width]))
                    // Sparse noise: one sample in sixteen.
                    var bits = noise.next()
                    for x in Swift.stride(from: 0, to: Self.width, by: 16) {
                        let at = x + Int(bits & 15)
                        row[at] = row[at] &+ UInt8(truncatingIfNeeded: (bits >> 4) & 7)
                        bits = bits &* 6_364_136_223_846_793_005 &+ 1
                    }
                }
            }
            let chroma = UnsafeMutableRawBufferPointer(rebasing: bytes[luma...])
            chroma.initializeMemory(as: UInt8.self, repeating: 128)
            if let luma = Self.luma(of: bytes) { LatencyMarker.stamp(UInt16(truncatingIfNeeded: number), onto: luma) }
        }
        return buffer
    }

    /// Returns the number in a decoded frame, or nil if it is damaged.
    static func number(in frame: UnsafeRawBufferPointer) -> Int? {
        // The decoder pads to whole macroblocks; a width of 1280 is a multiple already, so rows are contiguous.
        luma(of: UnsafeMutableRawBufferPointer(mutating: frame)).flatMap(LatencyMarker.find).map { Int($0.number) }
    }

    private static func luma(of frame: UnsafeMutableRawBufferPointer) -> BytePlane? {
        guard frame.count >= width * height, let base = frame.baseAddress else { return nil }
        return BytePlane(base: base, stride: width, width: width, height: height)
    }
}

private struct Noise {
    var state: UInt64
    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state >> 24
    }
}
