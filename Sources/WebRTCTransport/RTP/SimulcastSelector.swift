// Selects the layer of a received simulcast to forward: the best one that flows. A value; it knows bytes and what was
// negotiated.

package struct SimulcastSelector {
    /// Highest resolution first.
    private let rids: [[UInt8]]
    private let ridExtension: UInt8?
    private var streams: [UInt32: (layer: Int, count: UInt64, last: Duration)] = [:]
    /// SSRC of the forwarded layer.
    package private(set) var activeSSRC: UInt32?
    /// If the forwarded layer is silent for this long, another one that flows replaces it.
    private static let layerTimeout = Duration.milliseconds(500)
    private static let mostStreams = 16

    package struct Update: Equatable {
        /// The rid of a layer that was not there before.
        package var arrived: String?
        /// The SSRC of the layer that is forwarded from now on.
        package var activeSSRC: UInt32?
        package init(arrived: String? = nil, activeSSRC: UInt32? = nil) {
            (self.arrived, self.activeSSRC) = (arrived, activeSSRC)
        }
    }

    /// - Parameters:
    ///   - rids: Highest resolution first.
    ///   - ridExtension: ID of the header extension that carries them.
    package init(rids: [String], ridExtension: UInt8?) {
        self.rids = rids.map { Array($0.utf8) }
        self.ridExtension = ridExtension
    }

    /// Received packets by rid.
    package var packets: [String: UInt64] {
        streams.values.reduce(into: [:]) {
            $0[String(decoding: rids[$1.layer], as: UTF8.self), default: 0] &+= $1.count
        }
    }

    /// - Parameters:
    ///   - packet: RTP of 12 bytes or more, not a retransmission.
    ///   - now: Monotonic.
    package mutating func receive(rtp packet: UnsafeRawBufferPointer, now: Duration) -> Update {
        let ssrc = packet.bigEndian32(at: 8)
        var update = Update()
        guard let layer = streams[ssrc]?.layer ?? layer(packet) else { return update }
        if streams[ssrc] == nil {
            // Only a remote peer that keeps inventing SSRCs reaches the limit.
            if streams.count >= Self.mostStreams { streams.removeAll() }
            update.arrived = String(decoding: rids[layer], as: UTF8.self)
        }
        streams[ssrc] = (layer, (streams[ssrc]?.count ?? 0) &+ 1, now)
        guard ssrc != activeSSRC else { return update }
        if let activeSSRC, let current = streams[activeSSRC], current.layer < layer,
            now - current.last < Self.layerTimeout
        {
            return update
        }
        (activeSSRC, update.activeSSRC) = (ssrc, ssrc)
        return update
    }

    private func layer(_ packet: UnsafeRawBufferPointer) -> Int? {
        guard let id = ridExtension, let value = OneByteExtension.value(id, in: packet) else { return nil }
        return rids.firstIndex { $0.elementsEqual(packet[value]) }
    }
}
