// The Swift types of fields and their form on the wire (protobuf's guide "Encoding").

/// The type of a field, or of its elements if it is repeated.
package protocol WireValue: Equatable, Sendable {
    static var wireType: WireType { get }
    /// The default value.
    init()
    func write(to writer: inout WireWriter)
    mutating func merge(from reader: inout WireReader) throws(WireError)
}

// MARK: Varints

/// A number, a Boolean value or an enum.
package protocol VarintValue: WireValue {
    /// A number that is too large loses its upper bits.
    init(varint: UInt64)
    var varint: UInt64 { get }
}

extension VarintValue {
    package static var wireType: WireType { .varint }
    package func write(to writer: inout WireWriter) { writer.varint(varint) }
    package mutating func merge(from reader: inout WireReader) throws(WireError) {
        self = Self(varint: try reader.varint())
    }
}

extension VarintValue where Self: FixedWidthInteger {
    package init(varint: UInt64) { self.init(truncatingIfNeeded: varint) }
    /// A negative number has the sign in all 64 bits, whatever its width.
    package var varint: UInt64 { UInt64(truncatingIfNeeded: self) }
}

extension UInt32: VarintValue {}
extension Int32: VarintValue {}
extension Int64: VarintValue {}

extension Bool: VarintValue {
    package init(varint: UInt64) { self = varint != 0 }
    package var varint: UInt64 { self ? 1 : 0 }
}

/// An enum of the protocol. A number without a name is a value too, because other versions have more names.
package protocol OpenEnum: VarintValue, Hashable {
    /// The values in the order of their numbers, which begin with 0; nil for a number without a name.
    static var names: [Self?] { get }
    static func unrecognized(_ number: Int32) -> Self
    /// Nil if the value has a name.
    var unrecognizedNumber: Int32? { get }
}

extension OpenEnum {
    package init() { self.init(varint: 0) }

    package init(varint: UInt64) {
        let (number, names) = (Int32(varint: varint), Self.names)
        let named = names.indices.contains(Int(number)) ? names[Int(number)] : nil
        self = named ?? .unrecognized(number)
    }

    package var varint: UInt64 {
        unrecognizedNumber?.varint ?? UInt64(Self.names.firstIndex(of: self) ?? 0)
    }
}

// MARK: Strings and bytes

extension String: WireValue {
    package static var wireType: WireType { .lengthDelimited }
    package func write(to writer: inout WireWriter) { writer.data(utf8) }
    package mutating func merge(from reader: inout WireReader) throws(WireError) {
        guard let text = Self(validating: try reader.data(), as: UTF8.self) else { throw .invalidUTF8 }
        self = text
    }
}

/// Protobuf's `bytes`.
@propertyWrapper
package struct WireData: WireValue {
    package var wrappedValue: [UInt8] = []
    package var projectedValue: Self {
        get { self }
        set { self = newValue }
    }

    package init() {}

    package static var wireType: WireType { .lengthDelimited }
    package func write(to writer: inout WireWriter) { writer.data(wrappedValue) }
    package mutating func merge(from reader: inout WireReader) throws(WireError) {
        wrappedValue = Array(try reader.data())
    }
}
