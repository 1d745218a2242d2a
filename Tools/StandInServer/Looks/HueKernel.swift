/// Rotates colours around the grey axis, that is, in the (Cb, Cr) plane.
enum HueKernel {
    /// Shift of the whole frame's chroma in the direction of the rotation, in code values, so that a grey frame shows
    /// its prompt too.
    private static let cast = 20

    static func apply(to frame: I420Frame, degrees: Int) {
        let (cosine, sine) = (Self.sine(degrees + 90), Self.sine(degrees))
        // Products of sample and factor in 1/1024; the first table of each sum includes the cast and the rounding.
        let offset: Int = 128 * 1024 + 512
        let tables =
            products(cosine, plus: offset + cast * cosine) + products(-sine, plus: 0)
            + products(sine, plus: offset + cast * sine) + products(cosine, plus: 0)
        tables.withUnsafeBufferPointer { tables in
            if let base = tables.baseAddress { rotate(frame, base) }
        }
    }

    private static func products(_ factor: Int, plus offset: Int) -> [Int32] {
        (0..<256).map { Int32(truncatingIfNeeded: ($0 - 128) * factor + offset) }
    }

    /// - Parameter tables: four tables of 256 entries, one after the other.
    private static func rotate(_ frame: I420Frame, _ tables: UnsafePointer<Int32>) {
        let width = frame.blueChroma.width
        // `I420Frame` guarantees that both planes have the same size.
        for y in 0..<frame.blueChroma.height {
            let blue = frame.blueChroma.row(y)
            let red = frame.redChroma.row(y)
            var x = 0
            while x < width {
                let (b, r) = (Int(blue[x]), Int(red[x]))
                blue[x] = clamped((tables[b] &+ tables[256 &+ r]) &>> 10)
                red[x] = clamped((tables[512 &+ b] &+ tables[768 &+ r]) &>> 10)
                x &+= 1
            }
        }
    }

    @inline(__always)
    private static func clamped(_ value: Int32) -> UInt8 {
        UInt8(truncatingIfNeeded: min(max(value, 16), 240))
    }

    /// In 1/1024, in integers only: bit for bit the same on every machine. Bhaskara I's approximation, off by less than
    /// 0.2 %, for 0 ≤ d ≤ 180: sin(d°) ≈ 4d(180 − d) / (40500 − d(180 − d)).
    private static func sine(_ degrees: Int) -> Int {
        let whole = ((degrees % 360) + 360) % 360
        let half = whole % 180
        let product = half * (180 - half)
        let value = 1024 * 4 * product / (40500 - product)
        return whole < 180 ? value : -value
    }
}
