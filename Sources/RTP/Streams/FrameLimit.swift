/// Limits the bytes of a frame before a depayloader collects them: a remote peer may send one that never ends. A value.
package struct FrameLimit {
    /// No keyframe of a size that we decode is nearly as large.
    package static let bytes = 4 << 20
    /// RTP timestamp of the frame whose last packet has not come; nil between two frames.
    private var timestamp: UInt32?
    /// Bytes of that frame so far.
    private var count = 0
    /// Frames that were dropped.
    package private(set) var drops: UInt64 = 0

    package init() {}

    /// Call for each packet in order.
    /// - Returns: False if the packet and the rest of its frame must be dropped.
    package mutating func admit(timestamp: UInt32, size: Int, endsFrame: Bool) -> Bool {
        if timestamp != self.timestamp { count = 0 }
        self.timestamp = endsFrame ? nil : timestamp
        let before = count
        count = min(count + size, Self.bytes + 1)
        guard count > Self.bytes else { return true }
        if before <= Self.bytes { drops &+= 1 }
        return false
    }

    /// The next packet is of another stream.
    package mutating func begin() { (timestamp, count) = (nil, 0) }
}
