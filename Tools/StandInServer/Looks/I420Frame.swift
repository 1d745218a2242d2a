package import DecartProtocol

/// A frame of three planes, 4:2:0, limited range: luma 16 … 235, chroma 16 … 240 around 128. The look kernels run
/// unchecked inside the planes' sizes.
package struct I420Frame {
    package let luma: BytePlane
    package let blueChroma: BytePlane
    package let redChroma: BytePlane

    /// Returns nil unless the chroma planes have half the luma's size, rounded up.
    package init?(luma: BytePlane, blueChroma: BytePlane, redChroma: BytePlane) {
        let width = luma.width / 2 + luma.width % 2
        let height = luma.height / 2 + luma.height % 2
        guard blueChroma.width == width, redChroma.width == width,
            blueChroma.height == height, redChroma.height == height
        else { return nil }
        (self.luma, self.blueChroma, self.redChroma) = (luma, blueChroma, redChroma)
    }
}
