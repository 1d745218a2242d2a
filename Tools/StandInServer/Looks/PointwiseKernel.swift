import DecartProtocol

/// Limits of limited-range video, ITU-R BT.601 §2.5.3: kernels stay within them for any input.
enum CodeRange {
    static func luma(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: min(max(value, 16), 235)) }
    static func chroma(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: min(max(value, 16), 240)) }
}

/// Functions of single samples, as tables of 256 bytes.
struct PointwiseKernel {
    private let luma: [UInt8]?
    private let blue: [UInt8]
    private let red: [UInt8]

    /// - Parameter luma: nil: it stays as it is.
    init(luma: ((Int) -> Int)? = nil, blue: (Int) -> Int, red: (Int) -> Int) {
        self.luma = luma.map { luma in (0..<256).map { CodeRange.luma(luma($0)) } }
        self.blue = (0..<256).map { CodeRange.chroma(blue($0)) }
        self.red = (0..<256).map { CodeRange.chroma(red($0)) }
    }

    func apply(to frame: I420Frame) {
        let planes: [(BytePlane, [UInt8]?)] = [(frame.luma, luma), (frame.blueChroma, blue), (frame.redChroma, red)]
        for (plane, table) in planes {
            table?.withUnsafeBufferPointer { table in
                for y in 0..<plane.height {
                    let row = plane.row(y)
                    // In bounds: a byte indexes 256 entries.
                    for x in 0..<plane.width { row[x] = table[Int(row[x])] }
                }
            }
        }
    }

    // The cast makes even a flat grey frame visibly transformed.
    static let posterised = PointwiseKernel(
        luma: { 30 + (min(max($0, 16), 235) - 16) * 5 / 220 * 46 }, blue: { quantised($0) - 12 },
        red: { quantised($0) + 16 })

    private static func quantised(_ value: Int) -> Int {
        let distance = value - 128
        return 128 + (abs(distance) < 12 ? 0 : abs(distance) < 44 ? distance.signum() * 40 : distance.signum() * 88)
    }

    // A parabola: black and white stay, midtones fall by up to 27.
    static let grey = PointwiseKernel(
        luma: { value in
            let level = min(max(value, 16), 235) - 16
            return 16 + (level + level * level / 219) / 2
        }, blue: { _ in 128 }, red: { _ in 128 })

    static func tint(_ tint: Look.Tint) -> PointwiseKernel {
        PointwiseKernel(blue: { $0 + tint.blue }, red: { $0 + tint.red })
    }
}
