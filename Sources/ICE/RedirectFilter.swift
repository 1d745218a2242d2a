private import CNice

/// A program of the kernel (classic BPF) for the UDP sockets of an agent. It drops the answers of STUN and TURN servers that
/// lead to this machine or to an address of its link ("300 Try Alternate", RFC 8489 section 14.15): libnice follows each such
/// answer by itself, and reads its sockets itself. Media pass at the first comparison.
package enum RedirectFilter {
    /// Targets of jumps.
    private enum Label { case alternate, six, mapped, four, address, pass, drop }
    private enum Line {
        case at(Label)
        case step(Code, UInt32 = 0, then: Label? = nil, otherwise: Label? = nil)
    }
    /// `A` is the accumulator, `X` the place of an attribute; `Indexed` counts from there.
    private enum Code: UInt16 {
        case loadByte = 0x30, loadHalf = 0x28, loadWord = 0x20, loadLength = 0x80
        case loadByteIndexed = 0x50, loadHalfIndexed = 0x48, loadWordIndexed = 0x40
        case setX = 0x01, moveToX = 0x07
        case add = 0x04, addX = 0x0c, and = 0x54, shiftRight = 0x74
        case ifEqual = 0x15, ifAbove = 0x25, ifAboveX = 0x2d
        case result = 0x06
    }

    /// More than the answers of servers have; one with more is dropped.
    private static let maximumAttributes = 16

    /// Counts from the UDP header, which has eight bytes.
    private static let beginning: [Line] = [
        // The first byte of RTP, RTCP and DTLS is higher (RFC 7983).
        .step(.loadByte, 8), .step(.ifAbove, 3, then: .pass),
        // An error response has both bits of the class.
        .step(.loadHalf, 8), .step(.and, 0x0110), .step(.ifEqual, 0x0110, otherwise: .pass),
        .step(.loadWord, 12), .step(.ifEqual, 0x2112_a442, otherwise: .pass),
        .step(.setX, 28),
    ]

    /// Goes on behind this attribute, unless it is ALTERNATE-SERVER; the datagram's end is that of the attributes.
    private static let attribute: [Line] = [
        .step(.loadLength), .step(.ifAboveX, otherwise: .pass),
        .step(.loadHalfIndexed, 0), .step(.ifEqual, 0x8023, then: .alternate),
        // The header of four bytes, and the value with its padding.
        .step(.loadHalfIndexed, 2), .step(.add, 7), .step(.and, ~3), .step(.addX), .step(.moveToX),
    ]

    private static let verdict: [Line] = [
        .step(.result, 0),
        // The family, and the address as it is.
        .at(.alternate), .step(.loadByteIndexed, 5), .step(.ifEqual, 1, then: .four),
        .step(.ifEqual, 2, otherwise: .pass),
        .step(.loadWordIndexed, 8), .step(.ifEqual, 0, then: .six),
        // fe80::/10
        .step(.shiftRight, 22), .step(.ifEqual, 0x3fa, then: .drop, otherwise: .pass),
        .at(.six), .step(.loadWordIndexed, 12), .step(.ifEqual, 0, otherwise: .pass),
        .step(.loadWordIndexed, 16), .step(.ifEqual, 0xffff, then: .mapped), .step(.ifEqual, 0, otherwise: .pass),
        // :: and ::1
        .step(.loadWordIndexed, 20), .step(.ifAbove, 1, then: .pass, otherwise: .drop),
        .at(.mapped), .step(.loadWordIndexed, 20), .step(.ifAbove, 0, then: .address, otherwise: .drop),
        .at(.four), .step(.loadWordIndexed, 8),
        .at(.address), .step(.shiftRight, 16), .step(.ifEqual, 0xa9fe, then: .drop),
        .step(.shiftRight, 8), .step(.ifEqual, 127, then: .drop), .step(.ifEqual, 0, then: .drop),
        .at(.pass), .step(.result, .max),
        .at(.drop), .step(.result, 0),
    ]

    private static let program: [gst_decart_filter_step] = {
        let lines = beginning + (0..<maximumAttributes).flatMap { _ in attribute } + verdict
        var places: [Label: Int] = [:]
        var count = 0
        for line in lines {
            if case .at(let label) = line { places[label] = count } else { count += 1 }
        }
        var steps: [gst_decart_filter_step] = []
        func distance(_ label: Label?) -> UInt8 {
            label.flatMap { places[$0] }.map { UInt8($0 - steps.count - 1) } ?? 0
        }
        for case .step(let code, let value, let then, let otherwise) in lines {
            steps.append(
                gst_decart_filter_step(
                    code: code.rawValue, if_true: distance(then), if_false: distance(otherwise), value: value))
        }
        return steps
    }()

    /// - Returns: false if the kernel has no such filters.
    @discardableResult package static func attach(to descriptor: CInt) -> Bool {
        program.withUnsafeBufferPointer { gst_decart_attach_filter(descriptor, $0.baseAddress, UInt16($0.count)) } != 0
    }

    /// Attaches it to the agent's UDP sockets, which it has once gathering has begun.
    static func attach(to agent: OpaquePointer, stream: UInt32) {
        var descriptors = [CInt](repeating: -1, count: 64)
        let count = gst_decart_nice_datagram_descriptors(agent, stream, &descriptors, CInt(descriptors.count))
        for descriptor in descriptors.prefix(Int(count)) { attach(to: descriptor) }
    }
}
