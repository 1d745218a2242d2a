/// Why a packet is sent.
package enum PacketPurpose: Sendable {
    case media
    /// RTX (RFC 4588) that the remote peer has asked for.
    case retransmission
    /// RTX that fills up a probe of the path.
    case padding
}

/// Sent packets by transport-wide sequence number. A streaming thread writes it for each packet, the network thread
/// reads it for each feedback: the owner must lock. It allocates nothing after `init`.
package struct SentPacketHistory: Sendable {
    package enum Fate: UInt8, Sendable { case unknown, lost, received }
    package struct Entry: Sendable, Equatable {
        package var sequence: UInt16
        package var fate: Fate
        /// Bytes; 0 = never written.
        package var size: Int32
        /// µs.
        package var sendTime: Int64
    }

    /// Some 14 s at 2.5 Mbit/s; must be a power of two below 2^15.
    package static let capacity = 4096
    /// A packet of `RTPSendParameters.shortMTU` with its header extensions is not longer.
    private static let leastFull = 1000
    private var ring: [Entry]
    /// Bytes of all packets, with or without a sequence number.
    package private(set) var totalBytes: UInt64 = 0
    package private(set) var retransmittedBytes: UInt64 = 0
    package private(set) var paddingBytes: UInt64 = 0
    /// Bytes of the longest packet of media.
    private var longest = 0
    /// By the media's own sequence number: how many packets of full length were sent up to it.
    private var full: [(number: UInt16, count: UInt32)]
    private var fullCount: UInt32 = 0

    package init() {
        ring = Array(repeating: Entry(sequence: 0, fate: .unknown, size: 0, sendTime: 0), count: Self.capacity)
        full = Array(repeating: (0, 0), count: Self.capacity)
    }

    /// - Parameters:
    ///   - sequence: nil: transport-cc is not negotiated.
    ///   - number: the sequence number of the media that are reported; nil: the packet carries none.
    package mutating func record(
        sequence: UInt16?, size: Int, _ purpose: PacketPurpose = .media, number: UInt16? = nil, now: Int64
    ) {
        let bytes = UInt64(clamping: size)
        totalBytes &+= bytes
        switch purpose {
        case .media: longest = max(longest, size)
        case .retransmission: retransmittedBytes &+= bytes
        case .padding: paddingBytes &+= bytes
        }
        if let number {
            if isFull(size) { fullCount &+= 1 }
            full[Int(number) & (Self.capacity - 1)] = (number, fullCount)
        }
        guard let sequence else { return }
        ring[Int(sequence) & (Self.capacity - 1)] = Entry(
            sequence: sequence, fate: .unknown, size: Int32(clamping: max(1, size)), sendTime: now)
    }

    package func entry(_ sequence: UInt16) -> Entry? {
        let entry = ring[Int(sequence) & (Self.capacity - 1)]
        return entry.size > 0 && entry.sequence == sequence ? entry : nil
    }

    /// True for a packet that is about as long as a payloader makes them, which a frame of several packets has.
    package func isFull(_ entry: Entry) -> Bool { isFull(Int(entry.size)) }

    private func isFull(_ size: Int) -> Bool { size > max(Self.leastFull, longest - 32) }

    /// The packets of full length that were sent up to that number; nil: it is not known any more.
    package func fullPackets(upTo number: UInt16) -> UInt32? {
        let entry = full[Int(number) & (Self.capacity - 1)]
        return entry.number == number ? entry.count : nil
    }

    package mutating func setFate(_ fate: Fate, of sequence: UInt16) {
        let index = Int(sequence) & (Self.capacity - 1)
        if ring[index].sequence == sequence { ring[index].fate = fate }
    }
}
