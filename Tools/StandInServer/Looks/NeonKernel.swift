/// City at night: inverts and darkens the luma, inverts and stretches the colours, draws edges bright.
enum NeonKernel {
    private static let darkened: [UInt8] = (0..<256).map { CodeRange.luma(16 + (235 - min(max($0, 16), 235)) * 2 / 5) }
    // The violet cast shows on grey frames too.
    private static let blueChroma = SampleTable { CodeRange.chroma(128 - ($0 - 128) * 7 / 4 + 30) }
    private static let redChroma = SampleTable { CodeRange.chroma(128 - ($0 - 128) * 7 / 4 + 22) }

    static func apply(to frame: I420Frame) {
        darkened.withUnsafeBufferPointer { table in
            if let table = table.baseAddress { glow(frame.luma, table) }
        }
        blueChroma.apply(to: frame.blueChroma)
        redChroma.apply(to: frame.redChroma)
    }

    /// Works in place: a sample reads only its right and lower neighbours, which are not yet overwritten.
    private static func glow(_ plane: Plane, _ table: UnsafePointer<UInt8>) {
        for y in 0..<plane.height {
            let row = plane.row(y)
            // In the last row and the last column, each sample is its own neighbour.
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
