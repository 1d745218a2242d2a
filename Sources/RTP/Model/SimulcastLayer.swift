// One video sent as several streams of falling size (simulcast, RFC 8853), so that an SFU can forward to each receiver
// the layer that its network can carry. Values only.

/// A simulcast layer as sent over RTP.
package struct RTPEncoding: Sendable, Equatable {
    /// Restriction identifier (RFC 8851), as in the descriptions and in each packet.
    package var rid: String
    package var ssrc: UInt32
    package var rtxSSRC: UInt32

    package init(rid: String, ssrc: UInt32, rtxSSRC: UInt32) {
        (self.rid, self.ssrc, self.rtxSSRC) = (rid, ssrc, rtxSSRC)
    }
}

package struct SimulcastLayer: Sendable, Equatable {
    package var rid: String
    /// Divisor of width and height.
    package var scaleResolutionDownBy: Double
    /// Frames a second, and bit/s, beyond which a lower layer does not improve visibly; nil: the layer of the full size.
    package var maximum: (framerate: Int, bitrate: Int)? { Self.limits[scaleResolutionDownBy == 1 ? "" : rid] }
    private static let limits: [String: (framerate: Int, bitrate: Int)] = ["h": (20, 450_000), "q": (20, 160_000)]

    package static let maximumCount = 3

    /// Layers for frames of this size, highest resolution first, chosen, named and limited as in LiveKit's SDKs: three from
    /// 960 pixels on the longer side, two from 480, else none, which means a single stream. The lower ones have 360 and 180
    /// pixels on the shorter side.
    package static func layers(width: Int, height: Int) -> [SimulcastLayer] {
        let longer = max(width, height)
        let count = longer >= 960 ? 3 : longer >= 480 ? 2 : 1
        let shorter = Double(min(width, height))
        // A layer of nearly the same size would be of no use.
        let least = 1.5
        let half = max(least, shorter / 360)
        let scales: [(rid: String, scale: Double)] =
            switch count {
            case 1: []
            case 2: [("h", 1), ("q", max(least, shorter / 180))]
            default: [("f", 1), ("h", half), ("q", 2 * half)]
            }
        return scales.map { SimulcastLayer(rid: $0.rid, scaleResolutionDownBy: $0.scale) }
    }

    /// The layer's frame size. A scaled length is even, as 4:2:0 requires, and at least 16.
    package func size(of frame: (width: Int, height: Int)) -> (width: Int, height: Int) {
        func part(_ length: Int) -> Int {
            guard scaleResolutionDownBy > 1 else { return length }
            return max(16, Int((Double(min(max(length, 0), 16_384)) / scaleResolutionDownBy).rounded()) & ~1)
        }
        return (part(frame.width), part(frame.height))
    }
}
