/// City at night: the picture inverted and darkened, colours inverted and stretched, edges drawn bright.
enum NeonKernel {
    private static let darkened: [UInt8] = (0..<256).map { CodeRange.luma(16 + (235 - min(max($0, 16), 235)) * 2 / 5) }
    // Violet cast, so that grey pictures show it.
    private static let blueChroma = SampleTable { CodeRange.chroma(128 - ($0 - 128) * 7 / 4 + 30) }
    private static let redChroma = SampleTable { CodeRange.chroma(128 - ($0 - 128) * 7 / 4 + 22) }

    static func apply(to frame: I420Frame) {
        darkened.withUnsafeBufferPointer { table in
            if let table = table.baseAddress { glow(frame.luma, table) }
        }
        blueChroma.apply(to: frame.blueChroma)
        redChroma.apply(to: frame.redChroma)
    }

    /// In place: a sample looks only at neighbours to the right and below, which are not yet overwritten.
    private static func glow(_ plane: Plane, _ table: UnsafePointer<UInt8>) {
        for y in 0..<plane.height {
            let row = plane.row(y)
            // The last row and the last column are their own neighbours.
            let below = plane.row(min(y &+ 1, plane.height &- 1))
            var here = Int32(row[0])
            var x = 0
            while x < plane.width {
                let right = x &+ 1 < plane.width ? Int32(row[x &+ 1]) : here
                let edge = abs(right &- here) &+ abs(Int32(below[x]) &- here)
                let value = Int32(table[Int(truncatingIfNeeded: here)]) &+ edge &* 3
                row[x] = UInt8(truncatingIfNeeded: min(value, 235))
                here = right
                x &+= 1
            }
        }
    }
}
