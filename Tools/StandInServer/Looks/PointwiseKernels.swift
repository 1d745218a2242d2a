/// Limits of limited-range video, ITU-R BT.601 §2.5.3: kernels stay within them for any input.
enum CodeRange {
    static func luma(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: min(max(value, 16), 235)) }
    static func chroma(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: min(max(value, 16), 240)) }
}

/// A function of one sample as a table of 256 bytes.
struct SampleTable {
    private let entries: [UInt8]

    init(_ function: (Int) -> UInt8) {
        entries = (0..<256).map(function)
    }

    func apply(to plane: Plane) {
        entries.withUnsafeBufferPointer { table in
            guard let table = table.baseAddress else { return }
            for y in 0..<plane.height {
                let row = plane.row(y)
                var x = 0
                while x < plane.width {
                    // In bounds: a byte indexes 256 entries.
                    row[x] = table[Int(row[x])]
                    x &+= 1
                }
            }
        }
    }
}

enum PosteriseKernel {
    private static let luma = SampleTable { value in
        let level = (min(max(value, 16), 235) - 16) * 5 / 220
        return CodeRange.luma(30 + level * 46)
    }
    // The cast makes even a flat grey frame visibly transformed.
    private static let blueChroma = SampleTable { CodeRange.chroma(quantised($0) - 12) }
    private static let redChroma = SampleTable { CodeRange.chroma(quantised($0) + 16) }

    private static func quantised(_ value: Int) -> Int {
        let distance = value - 128
        return 128 + (abs(distance) < 12 ? 0 : abs(distance) < 44 ? distance.signum() * 40 : distance.signum() * 88)
    }

    static func apply(to frame: I420Frame) {
        luma.apply(to: frame.luma)
        blueChroma.apply(to: frame.blueChroma)
        redChroma.apply(to: frame.redChroma)
    }
}

enum GreyKernel {
    // A parabola: black and white stay, midtones fall by up to 27.
    private static let luma = SampleTable { value in
        let level = min(max(value, 16), 235) - 16
        return CodeRange.luma(16 + (level + level * level / 219) / 2)
    }
    private static let noColour = SampleTable { _ in 128 }

    static func apply(to frame: I420Frame) {
        luma.apply(to: frame.luma)
        noColour.apply(to: frame.blueChroma)
        noColour.apply(to: frame.redChroma)
    }
}

enum TintKernel {
    static func apply(to frame: I420Frame, tint: Look.Tint) {
        SampleTable { CodeRange.chroma($0 + tint.blue) }.apply(to: frame.blueChroma)
        SampleTable { CodeRange.chroma($0 + tint.red) }.apply(to: frame.redChroma)
    }
}
