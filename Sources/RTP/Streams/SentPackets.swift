import Queues

/// Our stream of one SSRC: the counters of its sender reports, and the latest packets for retransmission (RFC 4588). A
/// value.
package struct SentStream: Sendable {
    /// Packets sent, and their payload bytes, modulo 2^32 as in a sender report.
    package private(set) var packets: UInt32 = 0
    package private(set) var octets: UInt32 = 0
    /// The latest packet's RTP timestamp and running time, ns.
    package private(set) var latest: (timestamp: UInt32, running: Int64)?
    package private(set) var sentSinceReport = false

    private struct Sent: Sendable {
        var sequence: UInt16
        var time: Duration
        var packet: any PacketStorage
    }
    private var history = RingBuffer<Sent>()
    private let retransmission: (ssrc: UInt32, payloadType: Int)?
    private let otherTypes: [Int: Int]
    private var nextSequence: UInt16
    /// Packets are kept for the longest time that our own jitter buffer waits; libwebrtc's hardly waits longer.
    private static var age: Duration { .seconds(2) }
    private static var maximumPackets: Int { 512 }

    /// - Parameters:
    ///   - retransmission: nil: no packet is kept.
    ///   - otherTypes: the payload types of retransmissions by those of the media, unless that of `retransmission`.
    ///   - firstSequence: the sequence number of the first retransmission.
    package init(
        retransmission: (ssrc: UInt32, payloadType: Int)?, otherTypes: [Int: Int] = [:], firstSequence: UInt16
    ) {
        (self.retransmission, self.otherTypes, nextSequence) = (retransmission, otherTypes, firstSequence)
    }

    /// The latest packet's numbers; nil: none was sent.
    package private(set) var last: (sequence: UInt16, timestamp: UInt32)?

    /// - Parameters:
    ///   - bytes: those of `packet`, at least a fixed header.
    ///   - retired: gets the packets that are no longer kept, for the owner to release where no lock is held: their memory
    ///     may be the application's.
    package mutating func sent(
        _ packet: any PacketStorage, _ bytes: UnsafeRawBufferPointer, running: Int64?, now: Duration,
        retired: inout [any PacketStorage]
    ) {
        packets &+= 1
        octets &+= UInt32(clamping: max(0, bytes.count - RTPHeader.length(bytes)))
        sentSinceReport = true
        last = (bytes.bigEndian16(at: 2), bytes.bigEndian32(at: 4))
        if let running { latest = (bytes.bigEndian32(at: 4), running) }
        guard retransmission != nil else { return }
        while let first = history.first, history.count >= Self.maximumPackets || now - first.time > Self.age {
            retired.append(first.packet)
            history.popFirst()
        }
        history.append(Sent(sequence: bytes.bigEndian16(at: 2), time: now, packet: packet))
    }

    package mutating func reported() { sentSinceReport = false }

    /// Bytes of a packet; nil: it is not kept (any more).
    package func size(of sequence: UInt16, now: Duration) -> Int? { kept(sequence, now)?.size }

    /// A NACK may ask for many packets that are not kept, so this must be quick.
    private func kept(_ sequence: UInt16, _ now: Duration) -> (any PacketStorage)? {
        guard let last = history.last else { return nil }
        // Sequence numbers ascend, with gaps for frames that were not sent.
        let back = last.sequence &- sequence
        var (low, high) = (0, history.count)
        while low < high {
            let middle = (low + high) / 2
            if let found = history[middle]?.sequence, last.sequence &- found > back {
                low = middle + 1
            } else {
                high = middle
            }
        }
        guard let sent = history[low], sent.sequence == sequence, now - sent.time <= Self.age else { return nil }
        return sent.packet
    }

    /// The retransmission of a packet; nil: it is not kept (any more).
    package mutating func makeRetransmission(of sequence: UInt16, now: Duration) -> [UInt8]? {
        guard let retransmission, let kept = kept(sequence, now) else { return nil }
        return repeated(kept, as: retransmission)
    }

    package var canPad: Bool { retransmission != nil && !history.isEmpty }

    /// A packet that only fills the path: the latest packet again, which repairs a loss, or padding (RFC 4588 section 4 has no
    /// such packet; receivers of RTX skip it) if that would be too long. nil: nothing was sent, or there is no RTX.
    /// - Parameter bytes: about the length of the packet.
    package mutating func makePadding(_ bytes: Int) -> [UInt8]? {
        guard let retransmission, let last = history.last else { return nil }
        if last.packet.size <= bytes + bytes / 2, let copy = repeated(last.packet, as: retransmission) { return copy }
        let length = min(max(bytes - 12, 16), 255)
        var packet: [UInt8] = [0xa0, UInt8(truncatingIfNeeded: retransmission.payloadType & 0x7f)]
        packet += [UInt8(nextSequence >> 8), UInt8(truncatingIfNeeded: nextSequence)]
        packet += (latest?.timestamp ?? 0).bigEndianBytes
        packet += retransmission.ssrc.bigEndianBytes
        packet += [UInt8](repeating: 0, count: length - 1)
        packet.append(UInt8(length))
        nextSequence &+= 1
        return packet
    }

    private mutating func repeated(_ kept: any PacketStorage, as retransmission: (ssrc: UInt32, payloadType: Int))
        -> [UInt8]?
    {
        let copy = kept.withBytes { packet -> [UInt8]? in
            let header = RTPHeader.length(packet)
            guard packet.count >= header else { return nil }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(packet.count + 2)
            bytes += packet[..<header]
            bytes += packet[2..<4]
            bytes += packet[header...]
            let type = otherTypes[Int(packet[1] & 0x7f)] ?? retransmission.payloadType
            bytes[1] = packet[1] & 0x80 | UInt8(truncatingIfNeeded: type)
            bytes.replaceSubrange(2..<4, with: [UInt8(nextSequence >> 8), UInt8(truncatingIfNeeded: nextSequence)])
            bytes.replaceSubrange(8..<12, with: retransmission.ssrc.bigEndianBytes)
            return bytes
        }
        guard let copy, let copy else { return nil }
        nextSequence &+= 1
        return copy
    }
}

package enum RTPHeader {
    /// Length of the header with contributing sources and extensions, whatever the packet's own length is.
    package static func length(_ packet: UnsafeRawBufferPointer) -> Int {
        guard packet.count >= 12 else { return 12 }
        let fixed = 12 + Int(packet[0] & 0x0f) * 4
        guard packet[0] & 0x10 != 0, packet.count >= fixed + 4 else { return fixed }
        return fixed + 4 + Int(packet.bigEndian16(at: fixed + 2)) * 4
    }

    /// Bytes of padding at the end of the packet. A damaged packet may claim more than it has.
    package static func padding(_ packet: UnsafeRawBufferPointer, header: Int) -> Int {
        packet.count > header && packet[0] & 0x20 != 0 ? Int(packet[packet.count - 1]) : 0
    }

    /// The payload without padding; empty if the packet is damaged.
    package static func media(_ packet: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let header = length(packet)
        let end = packet.count - padding(packet, header: header)
        return UnsafeRawBufferPointer(rebasing: packet[min(header, packet.count)..<max(min(header, packet.count), end)])
    }

    /// The packet that an RTX packet repeats (RFC 4588 section 4); nil if it repeats none, as padding does.
    /// - Returns: the packet, and the number that it had.
    package static func restore(
        _ packet: UnsafeRawBufferPointer, payloadType: Int, ssrc: UInt32
    ) -> (packet: [UInt8], sequence: UInt16)? {
        let header = length(packet)
        let padding = padding(packet, header: header)
        guard packet.count - padding >= header + 2 else { return nil }
        var bytes = Array(packet[..<header])
        bytes += packet[(header + 2)...]
        bytes[1] = packet[1] & 0x80 | UInt8(truncatingIfNeeded: payloadType)
        bytes.replaceSubrange(2..<4, with: packet[header..<header + 2])
        bytes.replaceSubrange(8..<12, with: ssrc.bigEndianBytes)
        return (bytes, packet.bigEndian16(at: header))
    }
}
