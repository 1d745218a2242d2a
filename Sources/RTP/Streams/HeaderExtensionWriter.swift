// Writes one-byte header extensions (RFC 8285) into outgoing packets: mid, rid, abs-send-time and the transport-wide sequence
// number, which must be in the order of sending, retransmissions included.

/// Copies RTP packets into scratch buffers and adds our header extensions. Only one thread at a time may use it.
package final class HeaderExtensionWriter {
    package static let capacity = 2048
    private let scratches: UnsafeMutableRawBufferPointer
    private var scratch: UnsafeMutableRawBufferPointer
    private let ids: HeaderExtensionIDs
    private let mid: [UInt8]
    /// The rid extension of each SSRC.
    private let streams: [UInt32: (id: UInt8, rid: [UInt8])]

    /// - Parameters:
    ///   - streams: Layers of a simulcast.
    ///   - count: packets that `keep` can keep.
    package init(ids: HeaderExtensionIDs, mid: String, streams: [RTPEncoding] = [], count: Int = 1) {
        scratches = .allocate(byteCount: max(1, count) * Self.capacity, alignment: 16)
        scratch = UnsafeMutableRawBufferPointer(rebasing: scratches[..<Self.capacity])
        self.ids = ids
        // A one-byte extension holds 16 bytes at most. A truncated mid would name another m-line, so longer values are
        // dropped.
        func value(_ text: String) -> [UInt8] { text.utf8.count <= 16 ? Array(text.utf8) : [] }
        self.mid = value(mid)
        var named: [UInt32: (UInt8, [UInt8])] = [:]
        for stream in streams where !value(stream.rid).isEmpty {
            if let id = ids.rid { named[stream.ssrc] = (id, value(stream.rid)) }
            if let id = ids.repairedRID { named[stream.rtxSSRC] = (id, value(stream.rid)) }
        }
        self.streams = named
    }

    /// The transport-wide sequence number of the last packet; the first one is 0.
    package private(set) var transportSequence = UInt16.max
    package var hasTransportSequence: Bool { ids.transportWideCC != nil }

    deinit { scratches.deallocate() }

    /// Keeps the packet of the last `write` valid until `count` further packets are kept.
    package func keep() {
        guard let base = scratches.baseAddress, let current = scratch.baseAddress else { return }
        let next = (current - base + Self.capacity) % scratches.count
        scratch = UnsafeMutableRawBufferPointer(rebasing: scratches[next..<next + Self.capacity])
    }

    /// Returns the packet with extensions and its length, in memory that is valid until the next call; nil if it is no
    /// RTP packet or would not fit with `reserve` bytes to spare. `sendTime` is a monotonic time.
    package func write(
        _ packet: UnsafeRawBufferPointer, sendTime: Duration, reserve: Int
    ) -> (buffer: UnsafeMutableRawBufferPointer, length: Int)? {
        guard packet.count >= 12, packet[0] >> 6 == 2 else { return nil }
        let (fixed, payloadStart) = (12 + Int(packet[0] & 0x0f) * 4, RTPHeader.length(packet))
        let isExtended = packet[0] & 0x10 != 0
        guard packet.count >= payloadStart, !isExtended || payloadStart > fixed else { return nil }
        // We write no two-byte extensions: pass the packet unchanged.
        guard !isExtended || packet.bigEndian16(at: fixed) == 0xbede else { return copy(packet, reserve: reserve) }
        let existing = UnsafeRawBufferPointer(rebasing: packet[(isExtended ? fixed + 4 : fixed)..<payloadStart])
        let stream = streams.isEmpty ? nil : streams[packet.bigEndian32(at: 8)]
        let added =
            (ids.mid == nil || mid.isEmpty ? 0 : 1 + mid.count) + (ids.absoluteSendTime == nil ? 0 : 4)
            + (ids.transportWideCC == nil ? 0 : 3) + (stream.map { 1 + $0.rid.count } ?? 0)
        guard added > 0 else { return copy(packet, reserve: reserve) }
        let used = Self.usedLength(existing)
        let padded = (used + added + 3) & ~3
        let total = fixed + 4 + padded + (packet.count - payloadStart)
        guard total + reserve <= scratch.count else { return nil }

        scratch.copyMemory(from: UnsafeRawBufferPointer(rebasing: packet[..<fixed]))
        scratch[0] |= 0x10
        scratch[fixed] = 0xbe
        scratch[fixed + 1] = 0xde
        scratch[fixed + 2] = UInt8(truncatingIfNeeded: (padded / 4) >> 8)
        scratch[fixed + 3] = UInt8(truncatingIfNeeded: padded / 4)
        var at = fixed + 4
        for index in 0..<used {
            scratch[at] = existing[index]
            at += 1
        }
        func put(_ id: UInt8, _ value: [UInt8]) {
            scratch[at] = id << 4 | UInt8(value.count - 1)
            at += 1
            for byte in value {
                scratch[at] = byte
                at += 1
            }
        }
        if let id = ids.mid, !mid.isEmpty { put(id, mid) }
        if let stream { put(stream.id, stream.rid) }
        if let id = ids.absoluteSendTime {
            // abs-send-time: 24 bits of seconds in 6.18 fixed point.
            let fixedPoint = max(0, sendTime.inMicroseconds) % 64_000_000 * 262_144 / 1_000_000
            scratch[at] = id << 4 | 2
            scratch[at + 1] = UInt8(truncatingIfNeeded: fixedPoint >> 16)
            scratch[at + 2] = UInt8(truncatingIfNeeded: fixedPoint >> 8)
            scratch[at + 3] = UInt8(truncatingIfNeeded: fixedPoint)
            at += 4
        }
        if let id = ids.transportWideCC {
            transportSequence &+= 1
            scratch[at] = id << 4 | 1
            scratch[at + 1] = UInt8(transportSequence >> 8)
            scratch[at + 2] = UInt8(truncatingIfNeeded: transportSequence)
            at += 3
        }
        while at < fixed + 4 + padded {
            scratch[at] = 0
            at += 1
        }
        UnsafeMutableRawBufferPointer(rebasing: scratch[at...]).copyMemory(
            from: UnsafeRawBufferPointer(rebasing: packet[payloadStart...]))
        return (scratch, total)
    }

    private func copy(_ packet: UnsafeRawBufferPointer, reserve: Int) -> (
        buffer: UnsafeMutableRawBufferPointer, length: Int
    )? {
        guard packet.count + reserve <= scratch.count else { return nil }
        scratch.copyMemory(from: packet)
        return (scratch, packet.count)
    }

    /// Length of the elements without trailing padding.
    private static func usedLength(_ elements: UnsafeRawBufferPointer) -> Int {
        var at = 0
        var used = 0
        while at < elements.count {
            let head = elements[at]
            if head == 0 {
                at += 1
                continue
            }
            at += 2 + Int(head & 0x0f)
            guard at <= elements.count else { break }
            used = at
        }
        return used
    }
}
