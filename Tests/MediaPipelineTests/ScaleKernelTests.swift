import CScaleKernels
import Glibc
import Testing

/// The scaler's kernels: each instruction set against plain C, plain C against the formulas, and no byte outside.
@Suite(.timeLimit(.minutes(2))) struct ScaleKernelTests {
    private struct Random {
        var state: UInt64
        mutating func next() -> UInt8 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
    }

    /// A plane inside guard bytes, with padding behind each row.
    private struct Guarded: Equatable {
        static let margin = 64
        static let mark: UInt8 = 0xA5
        var bytes: [UInt8]
        let width: Int
        let height: Int
        let stride: Int

        init(width: Int, height: Int, padding: Int) {
            (self.width, self.height, stride) = (width, height, width + padding)
            bytes = Array(repeating: Self.mark, count: 2 * Self.margin + stride * height)
        }

        subscript(x: Int, y: Int) -> UInt8 {
            get { bytes[Self.margin + y * stride + x] }
            set { bytes[Self.margin + y * stride + x] = newValue }
        }

        /// True if no byte outside the plane's rows has changed.
        var isIntact: Bool {
            for (index, byte) in bytes.enumerated() where byte != Self.mark {
                let (row, column) = (index - Self.margin).quotientAndRemainder(dividingBy: stride)
                if index < Self.margin || row >= height || column >= width { return false }
            }
            return true
        }
    }

    private struct Frame: Equatable {
        var y, u, v: Guarded

        init(_ width: Int, _ height: Int, padding: Int) {
            y = Guarded(width: width, height: height, padding: padding)
            u = Guarded(width: width / 2, height: height / 2, padding: padding)
            v = Guarded(width: width / 2, height: height / 2, padding: padding + 1)
        }
    }

    private struct Colours: Sendable, CustomTestStringConvertible {
        let red: Double
        let blue: Double
        let isFullRange: Bool
        var testDescription: String { "Kr \(red), \(isFullRange ? "full" : "limited") range" }

        static let all = [
            Colours(red: 0.299, blue: 0.114, isFullRange: false), Colours(red: 0.299, blue: 0.114, isFullRange: true),
            Colours(red: 0.2126, blue: 0.0722, isFullRange: false),
            Colours(red: 0.2126, blue: 0.0722, isFullRange: true),
        ]
    }

    /// The bytes of a pixel that hold red, green and blue.
    private typealias Order = (red: Int, green: Int, blue: Int)

    private func scaled(
        _ source: [UInt8], _ size: (width: Int, height: Int), stride: Int, to target: (width: Int, height: Int),
        padding: Int = 0, _ colours: Colours, order: Order = (0, 1, 2), _ level: decart_scale_level
    ) throws -> Frame {
        var frame = Frame(target.width, target.height, padding: padding)
        let plan = try #require(decart_scale_make_plan(size.width, size.height, target.width, target.height))
        defer { free(plan) }
        var matrix = decart_scale_make_matrix(
            CInt(order.red), CInt(order.green), CInt(order.blue), colours.red, colours.blue,
            colours.isFullRange ? 1 : 0)
        let (y, u, v) = (frame.y.stride, frame.u.stride, frame.v.stride)
        frame.y.bytes.withUnsafeMutableBufferPointer { luma in
            frame.u.bytes.withUnsafeMutableBufferPointer { blue in
                frame.v.bytes.withUnsafeMutableBufferPointer { red in
                    let planes = decart_scale_target(
                        y: luma.baseAddress! + Guarded.margin, u: blue.baseAddress! + Guarded.margin,
                        v: red.baseAddress! + Guarded.margin, y_stride: y, u_stride: u, v_stride: v)
                    source.withUnsafeBufferPointer {
                        decart_scale_frame(plan, $0.baseAddress!, stride, planes, &matrix, level)
                    }
                }
            }
        }
        return frame
    }

    private func noise(_ count: Int, seed: Int) -> [UInt8] {
        var random = Random(state: UInt64(seed))
        return (0..<count).map { _ in random.next() }
    }

    /// Sizes around the vectors' lengths, odd and even, smaller and larger than the target, down to one pixel.
    @Test func eachInstructionSetGivesTheSameBytes() throws {
        let levels = DECART_SCALE_PLAIN.rawValue...decart_scale_best_level().rawValue
        var seed = 1
        for (width, height) in [(1, 1), (2, 3), (7, 5), (8, 2), (9, 4), (31, 7), (33, 9), (64, 6), (101, 13)] {
            for target in [(2, 2), (6, 4), (8, 2), (10, 6), (16, 8), (22, 10), (50, 4)] {
                for padding in [0, 5] {
                    seed += 1
                    let stride = 4 * width + padding
                    let source = noise(stride * (height - 1) + 4 * width, seed: seed)
                    for colours in Colours.all {
                        let frames = try levels.map {
                            try scaled(
                                source, (width, height), stride: stride, to: target, padding: padding, colours,
                                decart_scale_level($0))
                        }
                        for frame in frames {
                            #expect(frame == frames[0], "\(width)x\(height) to \(target)")
                            #expect(frame.y.isIntact && frame.u.isIntact && frame.v.isIntact)
                        }
                    }
                }
            }
        }
    }

    /// Without scaling, each sample is at most one code value from the formulas of BT.601 and BT.709.
    @Test(arguments: Colours.all)
    private func coloursFollowTheStandard(_ colours: Colours) throws {
        let (width, height) = (64, 32)
        let orders: [Order] = [(0, 1, 2), (2, 1, 0), (1, 2, 3), (3, 2, 1)]
        for (index, order) in orders.enumerated() {
            var source = noise(4 * width * height, seed: index + 7)
            for (pixel, level) in [(0, UInt8(0)), (1, 255)] {
                for byte in 0..<4 { source[4 * pixel + byte] = level }
            }
            let frame = try scaled(
                source, (width, height), stride: 4 * width, to: (width, height), colours, order: order,
                decart_scale_best_level())
            func colour(_ x: Int, _ y: Int) -> (y: Double, u: Double, v: Double) {
                let pixel = 4 * (y * width + x)
                let red = Double(source[pixel + order.red])
                let green = Double(source[pixel + order.green])
                let blue = Double(source[pixel + order.blue])
                let luma = colours.red * red + (1 - colours.red - colours.blue) * green + colours.blue * blue
                let (lumaScale, chromaScale) = colours.isFullRange ? (1, 1) : (219.0 / 255, 224.0 / 255)
                return (
                    luma * lumaScale + (colours.isFullRange ? 0 : 16),
                    128 + (blue - luma) / 2 / (1 - colours.blue) * chromaScale,
                    128 + (red - luma) / 2 / (1 - colours.red) * chromaScale
                )
            }
            for y in 0..<height {
                for x in 0..<width { #expect(abs(Double(frame.y[x, y]) - colour(x, y).y) <= 1) }
            }
            for y in 0..<height / 2 {
                for x in 0..<width / 2 {
                    let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map { colour(2 * x + $0, 2 * y + $1) }
                    #expect(abs(Double(frame.u[x, y]) - four.reduce(0) { $0 + $1.u } / 4) <= 1)
                    #expect(abs(Double(frame.v[x, y]) - four.reduce(0) { $0 + $1.v } / 4) <= 1)
                }
            }
        }
    }

    /// A ramp stays a ramp: first and last columns lie on each other, the centres of rows too.
    @Test func samplesLieWhereVideoscalePutsThem() throws {
        let (width, height) = (30, 20)
        var across = [UInt8](repeating: 255, count: 4 * width * height)
        var down = across
        for y in 0..<height {
            for x in 0..<width {
                for byte in 0..<3 {
                    across[4 * (y * width + x) + byte] = UInt8(8 * x)
                    down[4 * (y * width + x) + byte] = UInt8(12 * y)
                }
            }
        }
        let full = Colours(red: 0.299, blue: 0.114, isFullRange: true)
        let target = (width: 20, height: 30)
        for level in DECART_SCALE_PLAIN.rawValue...decart_scale_best_level().rawValue {
            let level = decart_scale_level(level)
            let one = try scaled(across, (width, height), stride: 4 * width, to: target, full, level)
            let other = try scaled(down, (width, height), stride: 4 * width, to: target, full, level)
            for x in 0..<target.width {
                #expect(abs(Double(one.y[x, 3]) - Double(x) * 29 / 19 * 8) <= 1.1)
            }
            for y in 0..<target.height {
                let at = min(max((Double(y) + 0.5) * 20 / 30 - 0.5, 0), 19)
                #expect(abs(Double(other.y[3, y]) - at * 12) <= 1.1)
            }
        }
    }

    @Test func aPlanNeedsUsableSides() {
        for sides in [
            (0, 1, 2, 2), (1, 0, 2, 2), (1, 1, 0, 2), (1, 1, 2, 0), (4, 4, 3, 2), (4, 4, 2, 3), (40000, 4, 2, 2),
            (4, 4, 2, 40000),
        ] {
            #expect(decart_scale_make_plan(sides.0, sides.1, sides.2, sides.3) == nil)
        }
    }
}
