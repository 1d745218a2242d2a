import CFlipKernels
import Glibc

/// libyuv's mirror functions, loaded at run time if the library is installed: only this benchmark uses it.
struct LibYUV {
    private typealias Mirror =
        @convention(c) (
            UnsafePointer<UInt8>?, Int32, UnsafeMutablePointer<UInt8>?, Int32, Int32, Int32
        ) -> Int32
    private typealias Shuffle =
        @convention(c) (
            UnsafePointer<UInt8>?, Int32, UnsafeMutablePointer<UInt8>?, Int32, UnsafePointer<UInt8>?, Int32, Int32
        ) -> Int32

    private let bytes, pairs, triples, quads: Mirror
    private let shuffle: Shuffle

    init?() {
        guard let library = dlopen("libyuv.so.0", RTLD_NOW) ?? dlopen("libyuv.so", RTLD_NOW) else { return nil }
        func find(_ name: String) -> Mirror? { dlsym(library, name).map { unsafeBitCast($0, to: Mirror.self) } }
        guard let bytes = find("MirrorPlane"), let pairs = find("MirrorUVPlane"), let triples = find("RGB24Mirror"),
            let quads = find("ARGBMirror"), let shuffle = dlsym(library, "ARGBShuffle")
        else { return nil }
        (self.bytes, self.pairs, self.triples, self.quads) = (bytes, pairs, triples, quads)
        self.shuffle = unsafeBitCast(shuffle, to: Shuffle.self)
    }

    /// libyuv has no mirror for packed 4:2:2: mirror pairs of pixels as 32-bit units, then restore the order inside
    /// each pair with this shuffle, row by row.
    private static let yuyv: [UInt8] = [2, 1, 0, 3, 6, 5, 4, 7, 10, 9, 8, 11, 14, 13, 12, 15]

    func flip(
        _ to: UnsafeMutablePointer<UInt8>, _ from: UnsafePointer<UInt8>, _ stride: Int, _ plane: FlipFormat.Plane,
        _ columns: Int, _ rows: Int
    ) {
        let (stride32, columns32, rows32) = (Int32(stride), Int32(columns), Int32(rows))
        switch plane.unit {
        case DECART_FLIP_8: _ = bytes(from, stride32, to, stride32, columns32, rows32)
        case DECART_FLIP_16: _ = pairs(from, stride32, to, stride32, columns32, rows32)
        case DECART_FLIP_24: _ = triples(from, stride32, to, stride32, columns32, rows32)
        case DECART_FLIP_32: _ = quads(from, stride32, to, stride32, columns32, rows32)
        default:
            for row in 0..<rows {
                let target = to + row * stride
                _ = quads(from + row * stride, stride32, target, stride32, columns32 / 2, 1)
                _ = shuffle(target, stride32, target, stride32, Self.yuyv, columns32 / 2, 1)
            }
        }
    }
}
