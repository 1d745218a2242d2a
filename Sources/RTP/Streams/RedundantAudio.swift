// Redundant audio (RFC 2198): each packet repeats the Opus packet before it, so that its successor replaces a lost packet.
// Values that know bytes; the remote peer chooses those that arrive.
//
// GStreamer's rtpreddec works behind a jitter buffer, for packets that have been given up already. Ours unpacks in front of
// it, so that nothing waits for a packet whose copy is here, and needs no further element.

package enum RedundantAudio {
    package struct Block: Equatable {
        package var payloadType: Int
        /// Units of the RTP clock by which the block is older than its packet.
        package var age: UInt32
        /// In the payload.
        package var range: Range<Int>

        package init(payloadType: Int, age: UInt32, range: Range<Int>) {
            (self.payloadType, self.age, self.range) = (payloadType, age, range)
        }
    }
    /// More copies of a packet repair nothing that the jitter buffer still waits for.
    private static let maximumBlocks = 16
    /// Fields of a header: 14 bits, 10 bits.
    fileprivate static let maximumAge: UInt32 = 0x3fff
    fileprivate static let maximumLength = 0x3ff

    /// The blocks of a payload, oldest first; the last one is that of the packet itself. nil: it is malformed.
    package static func blocks(of payload: UnsafeRawBufferPointer) -> [Block]? {
        var headers: [(payloadType: Int, age: UInt32, length: Int)] = []
        var at = 0
        while at < payload.count, payload[at] & 0x80 != 0 {
            guard headers.count < maximumBlocks, at + 4 <= payload.count else { return nil }
            let word = payload.bigEndian32(at: at)
            headers.append((Int(word >> 24 & 0x7f), word >> 10 & maximumAge, Int(word) & maximumLength))
            at += 4
        }
        // The last header is one byte.
        guard at < payload.count else { return nil }
        let type = Int(payload[at])
        var (blocks, start): ([Block], Int) = ([], at + 1)
        for header in headers {
            guard header.length <= payload.count - start else { return nil }
            let end = start + header.length
            blocks.append(Block(payloadType: header.payloadType, age: header.age, range: start..<end))
            start = end
        }
        guard start < payload.count else { return nil }
        return blocks + [Block(payloadType: type, age: 0, range: start..<payload.count)]
    }

    /// The packets in a packet of redundant audio, oldest first; the last one is its own. Empty: it is malformed, or has
    /// another payload than the negotiated one, as redundancy within redundancy would be.
    ///
    /// A block names no sequence number: as in libwebrtc, the blocks are those of the packets just before.
    package static func packets(
        in packet: UnsafeRawBufferPointer, _ redundancy: AudioRedundancy
    ) -> [(packet: [UInt8], sequence: UInt16)] {
        let payload = RTPHeader.media(packet)
        guard packet.count >= 12, let blocks = blocks(of: payload),
            blocks.last?.payloadType == redundancy.mediaType
        else { return [] }
        let (sequence, timestamp) = (packet.bigEndian16(at: 2), packet.bigEndian32(at: 4))
        return blocks.enumerated().compactMap { index, block in
            guard block.payloadType == redundancy.mediaType, !block.range.isEmpty else { return nil }
            let back = blocks.count - 1 - index
            let number = sequence &- UInt16(truncatingIfNeeded: back)
            let marker: UInt8 = back == 0 ? packet[1] & 0x80 : 0
            var bytes: [UInt8] = [0x80, marker | UInt8(truncatingIfNeeded: redundancy.mediaType)]
            bytes += [UInt8(number >> 8), UInt8(truncatingIfNeeded: number)]
            bytes += (timestamp &- block.age).bigEndianBytes
            bytes += packet[8..<12]
            bytes += payload[block.range]
            return (bytes, number)
        }
    }
}

/// Writes redundant audio, with one packet before each, as libwebrtc does.
package struct RedundancyWriter: Sendable {
    private let payloadType: UInt8
    private var last: (payload: [UInt8], payloadType: UInt8, sequence: UInt16, timestamp: UInt32)?
    /// As video: a datagram has 1200 bytes at most.
    private static let maximumSize = 1150

    package init(payloadType: Int) { self.payloadType = UInt8(truncatingIfNeeded: payloadType) & 0x7f }

    /// - Returns: nil: it is no RTP packet with a payload.
    package mutating func write(_ packet: UnsafeRawBufferPointer) -> [UInt8]? {
        let (header, media) = (RTPHeader.length(packet), RTPHeader.media(packet))
        guard packet.count >= 12, !media.isEmpty else { return nil }
        let (type, sequence, timestamp) = (packet[1] & 0x7f, packet.bigEndian16(at: 2), packet.bigEndian32(at: 4))
        var bytes = Array(packet[..<header])
        bytes[0] &= ~0x20  // Without the padding.
        bytes[1] = packet[1] & 0x80 | payloadType
        var copy: [UInt8] = []
        if let last, last.sequence &+ 1 == sequence, last.payload.count <= RedundantAudio.maximumLength,
            (1...RedundantAudio.maximumAge).contains(timestamp &- last.timestamp),
            header + 5 + last.payload.count + media.count <= Self.maximumSize
        {
            let lengths = (timestamp &- last.timestamp) << 10 | UInt32(last.payload.count)
            bytes += (UInt32(0x80 | last.payloadType) << 24 | lengths).bigEndianBytes
            copy = last.payload
        }
        bytes.append(type)
        bytes += copy
        bytes += media
        last = (Array(media), type, sequence, timestamp)
        return bytes
    }
}
