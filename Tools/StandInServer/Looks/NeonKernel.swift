import DecartProtocol

/// City at night: inverts and darkens the luma, inverts and stretches the colours, draws edges bright.
enum NeonKernel {
    private static let darkened: [UInt8] = (0..<256).map { CodeRange.luma(16 + (235 - min(max($0, 16), 235)) * 2 / 5) }
    // The violet cast shows on grey frames too.
    private static let chroma = PointwiseKernel(
        blue: { 128 - ($0 - 128) * 7 / 4 + 30 }, red: { 128 - ($0 - 128) * 7 / 4 + 22 })

    static func apply(to frame: I420Frame) {
        darkened.withUnsafeBufferPointer { glow(frame.luma, $0) }
        chroma.apply(to: frame)
    }

    /// Works in place: a sample reads only its right and lower neighbours, which are not yet overwritten.
    private static func glow(_ plane: BytePlane, _ table: UnsafeBufferPointer<UInt8>) {
        for y in 0..<plane.height {
            let row = plane.row(y)
            // In the last row and the last column, each sample is its own neighbour.
            let below = plane.row(min(y &+ 1, plane.height &- 1))
            var here = Int(row[0])
            for x in 0..<plane.width {
                let right = x &+ 1 < plane.width ? Int(row[x &+ 1]) : here
                let edge = abs(right &- here) &+ abs(Int(below[x]) &- here)
                row[x] = UInt8(truncatingIfNeeded: min(Int(table[here]) &+ edge &* 3, 235))
                here = right
            }
        }
    }
}
