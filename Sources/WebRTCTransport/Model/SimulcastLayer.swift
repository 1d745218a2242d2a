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
    package var scaleResolutionDownBy: Int

    package static let maximumCount = 3

    /// Layers for frames of this size, highest resolution first, chosen and named as in LiveKit's SDKs: three from 960
    /// pixels on the longer side, two from 480, else none, which means a single stream.
    package static func layers(width: Int, height: Int) -> [SimulcastLayer] {
        let longer = max(width, height)
        let count = longer >= 960 ? 3 : longer >= 480 ? 2 : 1
        guard count > 1 else { return [] }
        return ["q", "h", "f"].prefix(count).reversed().enumerated().map {
            SimulcastLayer(rid: $1, scaleResolutionDownBy: 1 << $0)
        }
    }

    /// The layer's frame size. A scaled length is even, as 4:2:0 requires, and at least 16.
    package func size(of frame: (width: Int, height: Int)) -> (width: Int, height: Int) {
        func part(_ length: Int) -> Int {
            scaleResolutionDownBy == 1 ? length : max(16, (length / max(scaleResolutionDownBy, 1)) & ~1)
        }
        return (part(frame.width), part(frame.height))
    }
}
