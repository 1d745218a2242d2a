/// Extends 16-bit sequence numbers or 32-bit timestamps, which wrap, to a continuous count. A value.
package struct SerialNumber<Wire: FixedWidthInteger & UnsignedInteger & Sendable>: Sendable {
    package private(set) var highest: Int64?

    package init() {}

    /// The count nearest to the highest one so far.
    package func extended(_ wire: Wire) -> Int64 {
        guard let highest else { return Int64(wire) }
        let step = wire &- Wire(truncatingIfNeeded: highest)
        let half = Wire.max / 2
        return step <= half ? highest &+ Int64(step) : highest &- Int64(Wire.max &- step) &- 1
    }

    /// Extends the number and updates `highest`.
    package mutating func record(_ wire: Wire) -> Int64 {
        let count = extended(wire)
        highest = max(highest ?? count, count)
        return count
    }
}
