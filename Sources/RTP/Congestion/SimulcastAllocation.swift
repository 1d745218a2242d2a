/// Divides the bitrate among simulcast layers by their pixel rate. It covers as many layers as look acceptable
/// together; the lowest layer always gets a share.
package struct SimulcastAllocation: Sendable {
    /// Bitrate at which each layer looks acceptable, bit/s; highest resolution first.
    private let minimumBitrates: [Int]
    /// The most that each layer gets, bit/s.
    private let maximumBitrates: [Double]
    /// The lower layers get a little more than their share, up to their maxima: each kbit/s improves them most.
    private static let lowerShare = 1.25
    /// Number of layers sent, counted from the lowest.
    package private(set) var count: Int

    package init(_ layers: [SimulcastLayer], width: Int, height: Int, frameRate: Double) {
        minimumBitrates = layers.map { layer in
            let size = layer.size(of: (width, height))
            return max(
                1,
                DegradationLadder(
                    width: size.width, height: size.height,
                    frameRate: layer.maximum.map { min(Double($0.framerate), frameRate) } ?? frameRate
                ).steps.first?.minimumBitrate ?? 1)
        }
        maximumBitrates = layers.map { $0.maximum.map { Double($0.bitrate) } ?? 1e9 }
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
        let highest = minimumBitrates.count - count
        var left = total
        var shares = [Int](repeating: 0, count: minimumBitrates.count)
        for index in minimumBitrates.indices.reversed() where index >= highest {
            // The highest layer takes what the others leave.
            let part = index == highest ? left : Self.lowerShare * total * Double(minimumBitrates[index]) / sum
            let share = min(part, maximumBitrates[index])
            left -= share
            shares[index] = Int(share)
        }
        return shares
    }

    private func minimumBitrate(_ count: Int) -> Double { minimumBitrates.suffix(count).reduce(0) { $0 + Double($1) } }
}
