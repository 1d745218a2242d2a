/// Writes protobuf's wire format.
package struct WireWriter {
    private(set) var bytes: [UInt8] = []

    mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func tag(_ number: Int, _ type: WireType) {
        varint(UInt64(number) << 3 | UInt64(type.rawValue))
    }

    mutating func field<Value: WireValue>(_ number: Int, _ value: Value) {
        tag(number, Value.wireType)
        value.write(to: &self)
    }

    mutating func data(_ data: some Collection<UInt8>) {
        varint(UInt64(data.count))
        bytes += data
    }

    /// Writes a length and what the closure writes.
    mutating func delimited(_ write: (inout Self) -> Void) {
        let start = bytes.count
        write(&self)
        // The length is known last. Messages are short and flat, so making room for it is cheap.
        var length = Self()
        length.varint(UInt64(bytes.count - start))
        bytes.insert(contentsOf: length.bytes, at: start)
    }

    /// Appends fields that are already written.
    mutating func append(_ fields: [UInt8]) { bytes += fields }
}
