/// How much later large frames come back than small ones: a service that waits for all packets of a frame holds large ones
/// back, and so does a narrow path. A value without a clock.
package struct IngestHold: Sendable {
    private static let window = 100
    /// Fewer frames, or frames of one size, tell nothing.
    private static let least = 12
    private static let leastRatio = 1.5

    private var samples: [(size: Int, delay: Int64)] = []

    package init() {}

    /// - Parameters:
    ///   - size: of the encoded frame, bytes.
    ///   - delay: from its capture until it came back, ns.
    package mutating func add(size: Int, delay: Int64) {
        guard size > 0 else { return }
        if samples.count >= Self.window { samples.removeFirst() }
        samples.append((size, delay))
    }

    /// The median delay of the largest third of the last frames beyond that of the smallest third, ns; nil: not known.
    package var value: Int64? {
        guard samples.count >= Self.least else { return nil }
        let sorted = samples.sorted { $0.size < $1.size }
        let third = sorted.count / 3
        let (small, large) = (sorted.prefix(third), sorted.suffix(third))
        guard Double(median(large.map(\.size))) >= Self.leastRatio * Double(median(small.map(\.size))) else {
            return nil
        }
        return max(0, median(large.map(\.delay)) &- median(small.map(\.delay)))
    }

    private func median<Number: FixedWidthInteger>(_ values: [Number]) -> Number {
        values.isEmpty ? 0 : values.sorted()[values.count / 2]
    }
}
