/// A view of one plane of 8-bit samples; it does not own the memory and is valid as long as the mapping behind it.
///
/// Only the initialiser checks bounds; the look kernels then run unchecked inside `width` × `height`.
package struct Plane {
    package let base: UnsafeMutableRawPointer
    /// Bytes from one row to the next, at least `width`.
    package let stride: Int
    /// Samples in a row, at least 1.
    package let width: Int
    package let height: Int

    /// Returns nil unless every row lies inside `buffer`.
    package init?(_ buffer: UnsafeMutableRawBufferPointer, stride: Int, width: Int, height: Int) {
        guard let base = buffer.baseAddress, width > 0, height > 0, stride >= width else { return nil }
        let (before, overflow) = stride.multipliedReportingOverflow(by: height - 1)
        guard !overflow, before <= buffer.count, width <= buffer.count - before else { return nil }
        self.base = base
        self.stride = stride
        self.width = width
        self.height = height
    }

    /// Returns the start of a row. The caller must keep `y` within `0 ..< height`.
    @inline(__always)
    func row(_ y: Int) -> UnsafeMutablePointer<UInt8> {
        (base + y &* stride).assumingMemoryBound(to: UInt8.self)
    }
}

/// A frame of three planes, 4:2:0, limited range: luma 16 … 235, chroma 16 … 240 around 128.
package struct I420Frame {
    package let luma: Plane
    package let blueChroma: Plane
    package let redChroma: Plane

    /// Returns nil unless the chroma planes have half the luma's size, rounded up.
    package init?(luma: Plane, blueChroma: Plane, redChroma: Plane) {
        let width = luma.width / 2 + luma.width % 2
        let height = luma.height / 2 + luma.height % 2
        guard blueChroma.width == width, redChroma.width == width,
            blueChroma.height == height, redChroma.height == height
        else { return nil }
        self.luma = luma
        self.blueChroma = blueChroma
        self.redChroma = redChroma
    }
}
