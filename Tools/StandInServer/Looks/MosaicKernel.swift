import DecartProtocol

/// Toy bricks: each 16 × 16 block gets its mean colour, a bright and a dark edge.
enum MosaicKernel {
    /// Difference of the edges from the brick, in code values; visible on a flat frame even after a lossy codec.
    private static let bevel = 32

    static func apply(to frame: I420Frame) {
        // Clamped so that both edges show on black and on white.
        lay(frame.luma, size: 16, in: (16 + bevel)...(235 - bevel), bevel: bevel)
        for plane in [frame.blueChroma, frame.redChroma] { lay(plane, size: 8, in: 16...240, bevel: 0) }
    }

    private static func lay(_ plane: BytePlane, size: Int, in range: ClosedRange<Int>, bevel: Int) {
        for top in stride(from: 0, to: plane.height, by: size) {
            for left in stride(from: 0, to: plane.width, by: size) {
                // Blocks are clipped at the right and lower border.
                let (width, rows) = (min(size, plane.width - left), top..<min(top + size, plane.height))
                var sum = 0
                for y in rows {
                    let row = plane.row(y) + left
                    for x in 0..<width { sum &+= Int(row[x]) }
                }
                let mean = min(max(sum / (width * rows.count), range.lowerBound), range.upperBound)
                let (light, dark) = (UInt8(clamping: mean + bevel), UInt8(clamping: mean - bevel))
                for y in rows {
                    let row = plane.row(y) + left
                    let fill = y == top ? light : y == rows.upperBound - 1 ? dark : UInt8(clamping: mean)
                    row.update(repeating: fill, count: width)
                    (row[0], row[width - 1]) = (light, dark)
                }
            }
        }
    }
}
