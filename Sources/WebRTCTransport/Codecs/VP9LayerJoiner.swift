// VP9 with spatial layers, on the way to the depayloader. Values only.

import RTP

/// Makes rtpvp9depay (1.22 and later) put the layers of a frame together: it takes the beginning of a layer without D, the
/// inter-layer dependency, for a new frame, and drops the layers before it. In K-SVC, which LiveKit's clients send, only
/// the layers of keyframes have D. Here it says that the packet continues the frame of the packets before it.
package struct VP9LayerJoiner: Sendable {
    /// RTP timestamp of the frame whose last packet has not come.
    private var timestamp: UInt32?
    /// Bytes of the newest frame so far, and how many of them precede each of its upper layers.
    private var size = 0
    private var layerStarts: [Int] = []

    package init() {}

    /// Takes the packets in order.
    /// - Returns: the packet as the depayloader must get it; nil: as it is. The trailer of a lower layer is removed, because
    ///   the decoder would take it for a frame; that of the highest one follows the whole frame.
    package mutating func correct(_ packet: UnsafeRawBufferPointer) -> [UInt8]? {
        let header = RTPHeader.length(packet)
        let padding = RTPHeader.padding(packet, header: header)
        // Packets of nothing but padding, which probe the network, have the timestamp of the frame before.
        guard packet.count - padding > header else { return nil }
        let (time, endsFrame) = (packet.bigEndian32(at: 4), packet[1] & 0x80 != 0)
        let continuesFrame = time == timestamp
        timestamp = endsFrame ? nil : time
        if !continuesFrame { (size, layerStarts) = (0, []) }
        guard let descriptor = VP9PayloadDescriptor(UnsafeRawBufferPointer(rebasing: packet[header...])) else {
            return nil
        }
        var corrected: [UInt8]?
        if descriptor.beginsLayerFrame, let place = descriptor.layerIndices,
            (packet[header + place] & 1 != 0) != continuesFrame
        {
            corrected = Array(packet)
            corrected?[header + place] ^= 1
        }
        // One byte stays: the depayloader refuses an empty payload.
        let mostRemoved = packet.count - header - descriptor.length - 1
        if descriptor.endsLayerFrame, !endsFrame, padding == 0,
            let trailer = FrameTrailer.length(end: packet.suffix(FrameTrailer.envelope), frameSize: mostRemoved)
        {
            corrected = (corrected ?? Array(packet)).dropLast(trailer)
        }
        if descriptor.beginsLayerFrame, size > 0 { layerStarts.append(size) }
        size += max(0, (corrected?.count ?? packet.count) - header - descriptor.length - padding)
        return corrected
    }

    /// The index of the layers for the end of the newest frame (VP9 bitstream annex B). A frame of one layer needs it too:
    /// only decoding finds the end of a frame, and without an index libvpx decodes what follows as a further frame,
    /// whose size `FrameGate` has not seen.
    /// - Parameter frameSize: bytes that the depayloader has put together, without trailer.
    package func index(frameSize: Int) -> [UInt8] {
        let isKnown = layerStarts.count < 8 && layerStarts.last ?? 0 < frameSize
        let starts = [0] + (isKnown ? layerStarts : []) + [frameSize]
        let marker = 0xd8 | UInt8(starts.count - 2)
        let lengths = zip(starts, starts.dropFirst()).flatMap { start, end in
            withUnsafeBytes(of: UInt32(truncatingIfNeeded: end - start).littleEndian, Array.init)
        }
        return [marker] + lengths + [marker]
    }
}
