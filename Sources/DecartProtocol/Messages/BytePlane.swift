/// A view of one plane of 8-bit samples in memory that the caller owns; valid only as long as that memory.
package struct BytePlane {
    private let base: UnsafeMutableRawPointer
    /// Bytes from one row to the next, at least `width`.
    private let stride: Int
    /// Samples in a row, at least 1.
    package let width: Int
    package let height: Int

    /// Returns nil unless a row fits into the stride. The caller guarantees that all rows lie within the memory.
    package init?(base: UnsafeMutableRawPointer, stride: Int, width: Int, height: Int) {
        guard width > 0, height > 0, stride >= width else { return nil }
        (self.base, self.stride, self.width, self.height) = (base, stride, width, height)
    }

    /// Returns the start of a row. The caller must keep `y` within `0 ..< height`.
    package func row(_ y: Int) -> UnsafeMutablePointer<UInt8> {
        (base + y &* stride).assumingMemoryBound(to: UInt8.self)
    }
}
