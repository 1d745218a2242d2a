/// Rotates colours around the grey axis, that is, in the (Cb, Cr) plane.
enum HueKernel {
    /// Shift of the whole frame's chroma in the direction of the rotation, in code values, so that a grey frame shows
    /// its prompt too.
    private static let cast = 20

    static func apply(to frame: I420Frame, degrees: Int) {
        let (cosine, sine) = FixedPointTrigonometry.cosineAndSine(degrees: degrees)
        // Products of sample and factor in 1/1024; the first table of each sum includes the cast and the rounding.
        let offset: Int = 128 * 1024 + 512
        let blueFromBlue = products(cosine, plus: offset + cast * cosine)
        let blueFromRed = products(-sine, plus: 0)
        let redFromBlue = products(sine, plus: offset + cast * sine)
        let redFromRed = products(cosine, plus: 0)
        blueFromBlue.withUnsafeBufferPointer { blueFromBlue in
            blueFromRed.withUnsafeBufferPointer { blueFromRed in
                redFromBlue.withUnsafeBufferPointer { redFromBlue in
                    redFromRed.withUnsafeBufferPointer { redFromRed in
                        guard let bb = blueFromBlue.baseAddress, let br = blueFromRed.baseAddress,
                            let rb = redFromBlue.baseAddress, let rr = redFromRed.baseAddress
                        else { return }
                        rotate(frame, bb, br, rb, rr)
                    }
                }
            }
        }
    }

    private static func products(_ factor: Int, plus offset: Int) -> [Int32] {
        (0..<256).map { Int32(truncatingIfNeeded: ($0 - 128) * factor + offset) }
    }

    private static func rotate(
        _ frame: I420Frame, _ bb: UnsafePointer<Int32>, _ br: UnsafePointer<Int32>,
        _ rb: UnsafePointer<Int32>, _ rr: UnsafePointer<Int32>
    ) {
        let width = frame.blueChroma.width
        // `I420Frame` guarantees that both planes have the same size.
        for y in 0..<frame.blueChroma.height {
            let blue = frame.blueChroma.row(y)
            let red = frame.redChroma.row(y)
            var x = 0
            while x < width {
                let b = Int(blue[x])
                let r = Int(red[x])
                blue[x] = clamped((bb[b] &+ br[r]) &>> 10)
                red[x] = clamped((rb[b] &+ rr[r]) &>> 10)
                x &+= 1
            }
        }
    }

    @inline(__always)
    private static func clamped(_ value: Int32) -> UInt8 {
        UInt8(truncatingIfNeeded: min(max(value, 16), 240))
    }
}

/// Sine and cosine in 1/1024, in integers only: bit for bit the same on every machine.
enum FixedPointTrigonometry {
    /// Bhaskara I's approximation, off by less than 0.2 %, for 0 ≤ d ≤ 180:
    /// sin(d°) ≈ 4d(180 − d) / (40500 − d(180 − d)).
    private static func sine(_ degrees: Int) -> Int {
        let whole = ((degrees % 360) + 360) % 360
        let half = whole % 180
        let product = half * (180 - half)
        let value = 1024 * 4 * product / (40500 - product)
        return whole < 180 ? value : -value
    }

    static func cosineAndSine(degrees: Int) -> (cosine: Int, sine: Int) {
        let whole = degrees % 360
        return (sine(whole + 90), sine(whole))
    }
}
