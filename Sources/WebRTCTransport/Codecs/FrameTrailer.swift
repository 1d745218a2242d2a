/// Metadata of a frame, in a trailer behind the encoded frame, as LiveKit's clients append it before the payloader
/// (`FrameMetadata`; "packet trailer" in the signalling).
///
/// The format, from livekit/rust-sdks `0b5462a9` (`webrtc-sys/include/livekit/packet_trailer.h`), livekit/client-sdk-js
/// `9380ed7a` (`src/frameMetadata`) and livekit/livekit `788d4c35` (`pkg/sfu/packettrailer`), and checked with frames of
/// the Python SDK 1.2.1:
///
///     elements, the trailer's length (1 byte), "LKTS"
///
/// An element is a tag (1 byte), the value's length (1 byte) and the value. Every byte before "LKTS" is XORed with 0xFF,
/// so that a small number has no byte sequence that would begin an H.264 NAL unit. The length counts the whole trailer,
/// so at most 255 bytes. Tag 1 is a time in microseconds since 1970 (8 bytes, big-endian), tag 2 a number of the frame
/// (4 bytes, big-endian), tag 3 any bytes of the application. A receiver skips other tags. An SFU removes the trailers for
/// subscribers without `CAP_PACKET_TRAILER`.
package struct FrameTrailer: Sendable, Equatable {
    /// Microseconds since 1970.
    package var timestamp: UInt64?
    package var frameID: UInt32?
    package var userData: [UInt8]?

    package init(timestamp: UInt64? = nil, frameID: UInt32? = nil, userData: [UInt8]? = nil) {
        (self.timestamp, self.frameID, self.userData) = (timestamp, frameID, userData)
    }

    // MARK: Reading

    private static let mark: [UInt8] = [0x4c, 0x4b, 0x54, 0x53]
    /// Bytes behind the elements.
    package static let envelope = 5

    /// - Parameters:
    ///   - end: the last `envelope` bytes of the frame.
    /// - Returns: nil if the frame has none.
    package static func length(end: some Collection<UInt8>, frameSize: Int) -> Int? {
        guard end.count == envelope, let first = end.first, end.dropFirst().elementsEqual(mark) else { return nil }
        let length = Int(~first)
        return length >= envelope && length <= frameSize ? length : nil
    }

    /// Reads the elements of a trailer, and ignores a truncated one.
    package init(reading trailer: some Collection<UInt8>) {
        var rest = trailer.dropLast(Self.envelope).lazy.map { ~$0 }[...]
        while let tag = rest.popFirst(), let length = rest.popFirst(), rest.count >= Int(length) {
            let value = rest.prefix(Int(length))
            rest = rest.dropFirst(Int(length))
            switch (tag, length) {
            case (1, 8): timestamp = value.reduce(0) { $0 << 8 | UInt64($1) }
            case (2, 4): frameID = value.reduce(0) { $0 << 8 | UInt32($1) }
            case (3, _): userData = Array(value)
            default: break
            }
        }
    }

    // MARK: Writing

    /// The trailer; nil if it would be empty, too long, or contain a start code, which splits an H.264 frame. LiveKit's
    /// receivers take a time or number of 0 for none.
    package var bytes: [UInt8]? {
        var elements: [UInt8] = []
        if let timestamp {
            elements += [1, 8] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: timestamp >> ($0 * 8)) }
        }
        if let frameID {
            elements += [2, 4] + (0..<4).reversed().map { UInt8(truncatingIfNeeded: frameID >> ($0 * 8)) }
        }
        if let userData { elements += [3, UInt8(truncatingIfNeeded: userData.count)] + userData }
        let length = elements.count + Self.envelope
        guard !elements.isEmpty, length <= 255 else { return nil }
        let trailer = (elements + [UInt8(length)]).map { ~$0 } + Self.mark
        let hasStartCode = trailer.indices.dropLast(2).contains {
            trailer[$0] == 0 && trailer[$0 + 1] == 0 && trailer[$0 + 2] == 1
        }
        return hasStartCode ? nil : trailer
    }
}
