/// Recognises frames that a server makes itself: their payload ends with bytes that it has announced. LiveKit flushes the
/// decoders of a subscriber with a few black frames and silent audio frames at the end of a track. A value; it knows packets
/// only.
package struct FillerTrailer: Sendable, Equatable {
    private let bytes: [UInt8]

    /// - Parameter bytes: empty: no frame is one of the server's.
    package init(_ bytes: [UInt8] = []) { self.bytes = bytes }

    package var isEmpty: Bool { bytes.isEmpty }

    /// True if the packet alone shows that its frame is one of the server's.
    /// - Parameter endsFrame: true for each packet of audio.
    package func ends(_ packet: UnsafeRawBufferPointer, endsFrame: Bool) -> Bool {
        guard endsFrame, let last = bytes.last else { return false }
        let media = RTPHeader.media(packet)
        return media.last == last && media.suffix(bytes.count).elementsEqual(bytes)
    }

    /// True if the packets of a whole frame, which are in order, end with the trailer, possibly in several packets.
    func ends(
        _ packets: some BidirectionalCollection<(packet: any PacketStorage, codec: VideoCodec?)>
    ) -> Bool {
        var rest = bytes[...]
        for (packet, codec) in packets.reversed() where !rest.isEmpty {
            let isRead = packet.withBytes { packet -> Bool in
                var media = RTPHeader.media(packet)[...]
                // A part that lies wholly in this packet may be compared without knowing how the codec fragments frames.
                if media.count < rest.count || packets.count > 1, let codec {
                    media = media.dropFirst(codec.fragmentHeader(UnsafeRawBufferPointer(rebasing: media)))
                }
                let part = media.suffix(rest.count)
                guard !part.isEmpty, part.elementsEqual(rest.suffix(part.count)) else { return false }
                rest = rest.dropLast(part.count)
                return true
            }
            guard isRead ?? false else { return false }
        }
        return rest.isEmpty && !bytes.isEmpty
    }
}
