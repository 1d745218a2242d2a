/// The reason why bytes are not a message in protobuf's wire format.
package enum WireError: Error, Equatable {
    case truncated
    /// A tag, a varint or a group that the format does not allow.
    case malformed
    case invalidUTF8
    /// Messages and groups are nested more deeply than `WireReader.maximumDepth`.
    case tooDeep
    /// More bytes than `WireReader.maximumLength`.
    case tooLong
}

/// The lowest three bits of a field's tag, which say how its value is delimited.
package enum WireType: UInt8 {
    case varint, fixed64, lengthDelimited, startGroup, endGroup, fixed32
}

/// Reads protobuf's wire format. The bytes come from a peer: none of them may trap, and the limits bound what they cost.
package struct WireReader {
    /// Messages and groups inside each other; the limit of Google's implementations.
    package static let maximumDepth = 100
    /// Bytes. The transports have lower limits.
    package static let maximumLength = 16 << 20

    private let bytes: [UInt8]
    private(set) var position = 0
    /// The end of the message that is being read, which may be nested in others.
    private var end: Int
    private var depth = 0

    init(_ bytes: [UInt8]) throws(WireError) {
        guard bytes.count <= Self.maximumLength else { throw .tooLong }
        self.bytes = bytes
        end = bytes.count
    }

    var isAtEnd: Bool { position == end }

    /// The bytes from an earlier position to this one.
    func bytes(since start: Int) -> ArraySlice<UInt8> { bytes[start..<position] }

    mutating func varint() throws(WireError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while position < end {
            let byte = bytes[position]
            position += 1
            // The tenth byte holds one bit; the bits above it are lost, as in Google's implementations.
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
            guard shift < 70 else { throw .malformed }
        }
        throw .truncated
    }

    /// The number of a field, and how its value is delimited.
    mutating func tag() throws(WireError) -> (number: Int, type: WireType) {
        let tag = try varint()
        guard tag <= UInt64(UInt32.max), tag >= 8, let type = WireType(rawValue: UInt8(tag & 7)) else {
            throw .malformed
        }
        return (Int(tag >> 3), type)
    }

    /// Reads a length and as many bytes.
    mutating func data() throws(WireError) -> ArraySlice<UInt8> {
        let length = try length()
        position += length
        return bytes[position - length..<position]
    }

    /// Reads a length, and lets the closure read as many bytes.
    mutating func delimited(_ read: (inout Self) throws(WireError) -> Void) throws(WireError) {
        let outer = end
        let length = try length()
        end = position + length
        try nested(read)
        end = outer
    }

    /// Skips the value of a field that is not known.
    mutating func skip(_ number: Int, _ type: WireType) throws(WireError) {
        switch type {
        case .varint: _ = try varint()
        case .fixed64: try advance(8)
        case .fixed32: try advance(4)
        case .lengthDelimited: _ = try data()
        case .startGroup: try nested { (reader) throws(WireError) in try reader.skipGroup(number) }
        case .endGroup: throw .malformed
        }
    }

    /// Skips the fields of a group to the end tag, which has the same number.
    private mutating func skipGroup(_ number: Int) throws(WireError) {
        while true {
            let field = try tag()
            if field.type == .endGroup, field.number == number { return }
            try skip(field.number, field.type)
        }
    }

    private mutating func nested(_ read: (inout Self) throws(WireError) -> Void) throws(WireError) {
        guard depth < Self.maximumDepth else { throw .tooDeep }
        depth += 1
        try read(&self)
        depth -= 1
    }

    /// Reads the length of a value, all of which is there.
    private mutating func length() throws(WireError) -> Int {
        let length = try varint()
        guard length <= UInt64(end - position) else { throw .truncated }
        return Int(length)
    }

    private mutating func advance(_ count: Int) throws(WireError) {
        guard count <= end - position else { throw .truncated }
        position += count
    }
}
