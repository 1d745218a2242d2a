/// Divides the bitrate among simulcast layers by their pixel rate. It covers as many layers as look acceptable
/// together; the lowest layer always gets a share.
package struct SimulcastAllocation: Sendable {
    /// Bitrate at which each layer looks acceptable, bit/s; highest resolution first.
    private let minimumBitrates: [Int]
    /// Number of layers sent, counted from the lowest.
    package private(set) var count: Int

    package init(_ layers: [SimulcastLayer], width: Int, height: Int, frameRate: Double) {
        minimumBitrates = layers.map { layer in
            let size = layer.size(of: (width, height))
            return max(
                1,
                DegradationLadder(width: size.width, height: size.height, frameRate: frameRate).steps.first?
                    .minimumBitrate ?? 1)
        }
        count = minimumBitrates.count
    }

    /// - Parameter total: bit/s.
    /// - Returns: bit/s of each layer, highest resolution first; 0: not sent.
    package mutating func allocate(_ total: Int) -> [Int] {
        let total = Double(max(total, 0))
        // A layer is added with a margin, so that it is not dropped again at once.
        while count > 1, total < minimumBitrate(count) { count -= 1 }
        while count < minimumBitrates.count, total >= 1.2 * minimumBitrate(count + 1) { count += 1 }
        let sum = minimumBitrate(count)
        return minimumBitrates.enumerated().map { index, minimum in
            guard index >= minimumBitrates.count - count else { return 0 }
            let part = total * Double(minimum) / sum
            // A lower layer does not improve visibly beyond that; only the highest one takes any excess.
            return Int(min(index == 0 ? part : min(part, 4 * Double(minimum)), 1e9))
        }
    }

    private func minimumBitrate(_ count: Int) -> Double { minimumBitrates.suffix(count).reduce(0) { $0 + Double($1) } }
}
