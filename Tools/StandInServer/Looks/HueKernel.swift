import DecartProtocol

/// Rotates colours around the grey axis, that is, in the (Cb, Cr) plane.
enum HueKernel {
    /// Shift of the whole frame's chroma in the direction of the rotation, in code values, so that a grey frame shows
    /// its prompt too.
    private static let cast = 20

    static func apply(to frame: I420Frame, degrees: Int) {
        let (cosine, sine) = (Self.sine(degrees + 90), Self.sine(degrees))
        // `I420Frame` guarantees that both planes have the same size.
        for y in 0..<frame.blueChroma.height {
            let (blue, red) = (frame.blueChroma.row(y), frame.redChroma.row(y))
            for x in 0..<frame.blueChroma.width {
                let (b, r) = (Int(blue[x]) &- 128 &+ cast, Int(red[x]) &- 128)
                blue[x] = CodeRange.chroma(128 &+ (b &* cosine &- r &* sine &+ 512) &>> 10)
                red[x] = CodeRange.chroma(128 &+ (b &* sine &+ r &* cosine &+ 512) &>> 10)
            }
        }
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
