import DecartProtocol
import StandInServer
import Testing

/// A frame in its own memory. Its strides exceed its width, so that a kernel that confuses them fails.
final class TestFrame {
    let width: Int
    let height: Int
    private let storage: UnsafeMutableRawBufferPointer
    private let lumaStride: Int
    private let chromaStride: Int
    private let chromaWidth: Int
    private let chromaHeight: Int
    /// Value of the padding after every row.
    static let padding: UInt8 = 7

    init(width: Int, height: Int) {
        self.width = width
        self.height = height
        chromaWidth = (width + 1) / 2
        chromaHeight = (height + 1) / 2
        lumaStride = width + 24
        chromaStride = chromaWidth + 12
        storage = .allocate(byteCount: lumaStride * height + 2 * chromaStride * chromaHeight, alignment: 16)
        storage.initializeMemory(as: UInt8.self, repeating: Self.padding)
    }

    deinit { storage.deallocate() }

    // Planes borrow the memory, so they are lent to closures.

    @discardableResult func withFrame<Value>(_ body: (I420Frame) throws -> Value) throws -> Value {
        let (luma, blue, red) = (try #require(luma), try #require(chroma(0)), try #require(chroma(1)))
        return try body(try #require(I420Frame(luma: luma, blueChroma: blue, redChroma: red)))
    }

    @discardableResult func withLuma<Value>(_ body: (BytePlane) throws -> Value) throws -> Value {
        try body(try #require(luma))
    }

    private var luma: BytePlane? {
        storage.baseAddress.flatMap { BytePlane(base: $0, stride: lumaStride, width: width, height: height) }
    }

    private func chroma(_ index: Int) -> BytePlane? {
        let start = lumaStride * height + index * chromaStride * chromaHeight
        return storage.baseAddress.flatMap {
            BytePlane(base: $0 + start, stride: chromaStride, width: chromaWidth, height: chromaHeight)
        }
    }

    func fill(luma: (Int, Int) -> Int, blue: (Int, Int) -> Int, red: (Int, Int) -> Int) {
        for y in 0..<height { for x in 0..<width { storage[y * lumaStride + x] = UInt8(clamping: luma(x, y)) } }
        let start = lumaStride * height
        for y in 0..<chromaHeight {
            for x in 0..<chromaWidth {
                storage[start + y * chromaStride + x] = UInt8(clamping: blue(x, y))
                storage[start + (y + chromaHeight) * chromaStride + x] = UInt8(clamping: red(x, y))
            }
        }
    }

    /// Samples of the three planes, without padding.
    var planes: [[UInt8]] {
        let start = lumaStride * height
        return [
            (0..<height).flatMap { Array(storage[($0 * lumaStride)..<($0 * lumaStride + width)]) },
            (0..<chromaHeight).flatMap {
                Array(storage[(start + $0 * chromaStride)..<(start + $0 * chromaStride + chromaWidth)])
            },
            (chromaHeight..<(2 * chromaHeight)).flatMap {
                Array(storage[(start + $0 * chromaStride)..<(start + $0 * chromaStride + chromaWidth)])
            },
        ]
    }

    var isPaddingUntouched: Bool {
        let start = lumaStride * height
        let luma = (0..<height).allSatisfy { y in
            storage[(y * lumaStride + width)..<((y + 1) * lumaStride)].allSatisfy { $0 == Self.padding }
        }
        return luma
            && (0..<(2 * chromaHeight)).allSatisfy { y in
                storage[(start + y * chromaStride + chromaWidth)..<(start + (y + 1) * chromaStride)]
                    .allSatisfy { $0 == Self.padding }
            }
    }

    /// A coloured diagonal gradient, so that every kernel meets edges, levels and hues.
    static func gradient(width: Int = 208, height: Int = 48) -> TestFrame {
        let image = TestFrame(width: width, height: height)
        image.fill(
            luma: { x, y in 16 + (x + 2 * y + (x / 40 % 2) * 60) % 220 },
            blue: { x, y in 70 + (x * 2 + y) % 120 },
            red: { x, y in 180 - (x + y * 2) % 120 })
        return image
    }

    static func flat(_ luma: Int, width: Int = 64, height: Int = 64) -> TestFrame {
        let image = TestFrame(width: width, height: height)
        image.fill(luma: { _, _ in luma }, blue: { _, _ in 128 }, red: { _, _ in 128 })
        return image
    }
}

/// The largest of the three planes' mean absolute differences, in code values.
func difference(_ one: [[UInt8]], _ other: [[UInt8]]) -> Double {
    zip(one, other).map { one, other in
        let sum = zip(one, other).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        return Double(sum) / Double(max(one.count, 1))
    }.max() ?? 0
}
