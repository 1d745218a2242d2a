/// Toy bricks: each 16 × 16 block gets its mean colour, a bright and a dark edge.
enum MosaicKernel {
    static let block = 16
    /// Difference of the edges from the brick, in code values; visible on a flat frame even after a lossy codec.
    static let bevel = 32

    static func apply(to frame: I420Frame) {
        for y in stride(from: 0, to: frame.luma.height, by: block) {
            for x in stride(from: 0, to: frame.luma.width, by: block) {
                let brick = Block(plane: frame.luma, x: x, y: y, size: block)
                // Clamped so that both edges show on black and on white.
                brick.fill(min(max(brick.mean, 16 &+ bevel), 235 &- bevel), bevel: bevel)
            }
        }
        for plane in [frame.blueChroma, frame.redChroma] {
            for y in stride(from: 0, to: plane.height, by: block / 2) {
                for x in stride(from: 0, to: plane.width, by: block / 2) {
                    let brick = Block(plane: plane, x: x, y: y, size: block / 2)
                    brick.fill(min(max(brick.mean, 16), 240), bevel: 0)
                }
            }
        }
    }

    /// A block of a plane, clipped at the right and lower border.
    private struct Block {
        let plane: Plane
        let x: Int
        let y: Int
        let width: Int
        let height: Int

        init(plane: Plane, x: Int, y: Int, size: Int) {
            self.plane = plane
            self.x = x
            self.y = y
            width = min(size, plane.width &- x)
            height = min(size, plane.height &- y)
        }

        var mean: Int {
            var sum = 0
            var row = 0
            while row < height {
                let samples = plane.row(y &+ row) + x
                var column = 0
                while column < width {
                    sum &+= Int(samples[column])
                    column &+= 1
                }
                row &+= 1
            }
            return sum / max(width &* height, 1)
        }

        func fill(_ value: Int, bevel: Int) {
            let middle = UInt8(truncatingIfNeeded: value)
            let light = UInt8(truncatingIfNeeded: value &+ bevel)
            let dark = UInt8(truncatingIfNeeded: value &- bevel)
            var row = 0
            while row < height {
                let samples = plane.row(y &+ row) + x
                let fill = row == 0 ? light : row == height &- 1 ? dark : middle
                samples.update(repeating: fill, count: width)
                samples[0] = light
                samples[width &- 1] = dark
                row &+= 1
            }
        }
    }
}
