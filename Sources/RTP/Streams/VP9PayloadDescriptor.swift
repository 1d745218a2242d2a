/// The payload descriptor of VP9 (RFC 9628 4.2). A value.
package struct VP9PayloadDescriptor: Sendable, Equatable {
    /// B and E: the packet begins or ends the frame of a layer.
    package let beginsLayerFrame: Bool
    package let endsLayerFrame: Bool
    /// Position of the octet with the layer indices, whose last bit is D; nil: the stream has no layers.
    package let layerIndices: Int?
    /// Bytes of the descriptor. At least one byte follows.
    package let length: Int

    /// Returns nil if the payload ends in the descriptor, or with it.
    package init?(_ payload: UnsafeRawBufferPointer) {
        var rest = payload[...]
        guard let flags = rest.popFirst() else { return nil }
        func has(_ bit: UInt8) -> Bool { flags & bit != 0 }
        if has(0x80) {
            guard let number = rest.popFirst() else { return nil }
            if number & 0x80 != 0, rest.popFirst() == nil { return nil }
        }
        layerIndices = has(0x20) ? rest.startIndex : nil
        if has(0x20) {
            // TL0PICIDX follows in non-flexible mode.
            guard rest.popFirst() != nil, has(0x10) || rest.popFirst() != nil else { return nil }
        }
        if has(0x40), has(0x10) {
            for number in 1...3 {
                guard let reference = rest.popFirst() else { return nil }
                if reference & 1 == 0 || number == 3 { break }
            }
        }
        if has(0x02), !Self.skipStructure(&rest) { return nil }
        guard !rest.isEmpty else { return nil }
        (beginsLayerFrame, endsLayerFrame) = (has(0x08), has(0x04))
        length = payload.count - rest.count
    }

    /// Skips the scalability structure (RFC 9628 4.2.1).
    private static func skipStructure(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Bool {
        guard let head = rest.popFirst() else { return false }
        if head & 0x10 != 0 {
            let sizes = (Int(head >> 5) + 1) * 4
            guard rest.count >= sizes else { return false }
            rest.removeFirst(sizes)
        }
        guard head & 0x08 != 0 else { return true }
        guard let count = rest.popFirst() else { return false }
        for _ in 0..<count {
            guard let frame = rest.popFirst() else { return false }
            let references = Int(frame >> 2 & 3)
            guard rest.count >= references else { return false }
            rest.removeFirst(references)
        }
        return true
    }
}
