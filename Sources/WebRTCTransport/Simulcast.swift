// One picture sent as several streams of falling size (simulcast, RFC 8853), so that a room's server can give each
// receiver the one that its network bears. Values only.

/// One stream of a simulcast as it travels.
package struct LayerStream: Sendable, Equatable {
    /// Its restriction identifier (RFC 8851), as in the descriptions and in each packet.
    package var rid: String
    package var ssrc: UInt32
    package var retransmissionSSRC: UInt32

    package init(rid: String, ssrc: UInt32, retransmissionSSRC: UInt32) {
        (self.rid, self.ssrc, self.retransmissionSSRC) = (rid, ssrc, retransmissionSSRC)
    }
}

/// One stream of a simulcast as it is encoded.
package struct SimulcastLayer: Sendable, Equatable {
    package var rid: String
    /// What width and height are divided by.
    package var divisor: Int

    /// Streams of one picture.
    package static let most = 3

    /// For pictures of this size, the best one first, as LiveKit's SDKs choose and name them: from 960 pixels on the longer
    /// side three, from 480 two, else one, which is none.
    package static func layers(width: Int, height: Int) -> [SimulcastLayer] {
        let longer = max(width, height)
        let count = longer >= 960 ? 3 : longer >= 480 ? 2 : 1
        guard count > 1 else { return [] }
        return ["q", "h", "f"].prefix(count).reversed().enumerated().map { SimulcastLayer(rid: $1, divisor: 1 << $0) }
    }

    /// Even, as 4:2:0 wants it, and never below 16.
    package func size(of picture: (width: Int, height: Int)) -> (width: Int, height: Int) {
        func part(_ length: Int) -> Int { divisor == 1 ? length : max(16, (length / max(divisor, 1)) & ~1) }
        return (part(picture.width), part(picture.height))
    }
}

/// Who gets what of a simulcast's bit rate: all that can look right together, each by its number of pixels; the least one
/// always.
package struct SimulcastAllocation: Sendable {
    /// At which each looks right, bit/s; the best one first.
    private let needs: [Int]
    /// How many are sent, counted from the least.
    package private(set) var count: Int

    package init(_ layers: [SimulcastLayer], width: Int, height: Int, frameRate: Double) {
        needs = layers.map { layer in
            let size = layer.size(of: (width, height))
            return max(1, DegradationLadder(width: size.width, height: size.height, frameRate: frameRate).rungs.first?.needs ?? 1)
        }
        count = needs.count
    }

    /// - Parameter total: bit/s.
    /// - Returns: bit/s for each, the best one first; 0: it is not sent.
    package mutating func share(_ total: Int) -> [Int] {
        let total = Double(max(total, 0))
        // One more only when it does not go again at once.
        while count > 1, total < need(count) { count -= 1 }
        while count < needs.count, total >= 1.2 * need(count + 1) { count += 1 }
        let sum = need(count)
        return needs.enumerated().map { index, need in
            guard index >= needs.count - count else { return 0 }
            let part = total * Double(need) / sum
            // More shows only where there is nothing better.
            return Int(min(index == 0 ? part : min(part, 4 * Double(need)), 1e9))
        }
    }

    private func need(_ count: Int) -> Double { needs.suffix(count).reduce(0) { $0 + Double($1) } }
}
