import CFlipKernels

/// A format to measure the flip with, plane by plane.
struct FlipFormat {
    struct Plane {
        let unit: decart_flip_unit
        /// Subsampling factors of width and height.
        var across = 1
        var down = 1

        var unitBytes: Int {
            switch unit {
            case DECART_FLIP_8: 1
            case DECART_FLIP_24: 3
            case DECART_FLIP_32: 4
            default: 2
            }
        }
    }

    let name: String
    let planes: [Plane]

    static let all = [
        FlipFormat("I420", [Plane(unit: DECART_FLIP_8)] + chroma(DECART_FLIP_8, 2)),
        FlipFormat("NV12", [Plane(unit: DECART_FLIP_8)] + chroma(DECART_FLIP_16, 1)),
        FlipFormat("YUY2", [Plane(unit: DECART_FLIP_YUYV)]),
        FlipFormat("RGBA", [Plane(unit: DECART_FLIP_32)]),
        FlipFormat("I420_10LE", [Plane(unit: DECART_FLIP_16)] + chroma(DECART_FLIP_16, 2)),
        FlipFormat("P010_10LE", [Plane(unit: DECART_FLIP_16)] + chroma(DECART_FLIP_32, 1)),
        FlipFormat("GRAY16_LE", [Plane(unit: DECART_FLIP_16)]),
        FlipFormat("RGB", [Plane(unit: DECART_FLIP_24)]),
    ]

    private init(_ name: String, _ planes: [Plane]) { (self.name, self.planes) = (name, planes) }

    private static func chroma(_ unit: decart_flip_unit, _ count: Int) -> [Plane] {
        Array(repeating: Plane(unit: unit, across: 2, down: 2), count: count)
    }

    /// Bytes of a frame without padding.
    func size(_ width: Int, _ height: Int) -> Int {
        planes.reduce(0) { $0 + width / $1.across * $1.unitBytes * (height / $1.down) }
    }

    typealias PlaneFlip = (
        _ to: UnsafeMutablePointer<UInt8>, _ from: UnsafePointer<UInt8>, _ stride: Int, _ plane: Plane, _ columns: Int,
        _ rows: Int
    ) -> Void

    func forEachPlane(
        _ width: Int, _ height: Int, to: UnsafeMutablePointer<UInt8>, from: UnsafePointer<UInt8>, _ flip: PlaneFlip
    ) {
        var offset = 0
        for plane in planes {
            let (columns, rows) = (width / plane.across, height / plane.down)
            let stride = columns * plane.unitBytes
            flip(to + offset, from + offset, stride, plane, columns, rows)
            offset += stride * rows
        }
    }
}
