/// Frames (RFC 4571) from a byte stream that a peer feeds: a datagram behind its length in two bytes. A value without a
/// socket.
package struct FrameReader: Sendable {
    /// No datagram of WebRTC is longer.
    package static let largestFrame = 2048
    /// Frames that are empty, too long, or of no protocol of this connection. An honest peer sends none.
    package static let maximumUseless = 256

    private var frame: [UInt8] = []
    /// The first byte of a length whose second one has not arrived.
    private var firstByte: UInt8?
    /// Bytes of the present frame that have not arrived.
    private var missing = 0
    private var isSkipped = false
    private var useless = 0

    package init() {}

    /// Takes the next bytes of the stream.
    /// - Parameter body: gets each complete frame; returns false if it is of no use.
    /// - Returns: false if the peer sent too many useless frames: close the connection.
    package mutating func read(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeMutableRawBufferPointer) -> Bool
    ) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty, useless < Self.maximumUseless {
            if missing > 0 {
                take(&rest)
                if missing == 0, isSkipped || !frame.withUnsafeMutableBytes(body) { useless += 1 }
            } else if let first = firstByte {
                firstByte = nil
                missing = Int(first) << 8 | Int(rest.removeFirst())
                isSkipped = missing > Self.largestFrame
                frame.removeAll(keepingCapacity: true)
                if missing == 0 { useless += 1 }
            } else {
                firstByte = rest.removeFirst()
            }
        }
        return useless < Self.maximumUseless
    }

    private mutating func take(_ rest: inout Slice<UnsafeRawBufferPointer>) {
        let part = rest.prefix(missing)
        missing -= part.count
        if !isSkipped { frame.append(contentsOf: part) }
        rest = rest.dropFirst(part.count)
    }
}
