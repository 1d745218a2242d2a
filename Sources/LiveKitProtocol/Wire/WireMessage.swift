/// A message: a value with a table of its fields.
package protocol WireMessage: WireValue {
    /// The order is that of the numbers: fields are written in it.
    static var fields: Fields { get }
    /// The fields that are not in the table, as they came. Messages without such a stored property drop them.
    var unknownFields: [UInt8] { get set }
}

extension WireMessage {
    package typealias Fields = [Field<Self>]

    package static func with(_ change: (inout Self) throws -> Void) rethrows -> Self {
        var message = Self()
        try change(&message)
        return message
    }

    package init(serializedBytes bytes: [UInt8]) throws(WireError) {
        self.init()
        var reader = try WireReader(bytes)
        try mergeFields(from: &reader)
    }

    package func serializedBytes() -> [UInt8] {
        var writer = WireWriter()
        writeFields(to: &writer)
        return writer.bytes
    }

    package var unknownFields: [UInt8] {
        get { [] }
        set {}
    }

    package static var wireType: WireType { .lengthDelimited }
    package func write(to writer: inout WireWriter) { writer.delimited(writeFields) }
    /// A message that comes in several parts has the fields of all.
    package mutating func merge(from reader: inout WireReader) throws(WireError) {
        try reader.delimited { (reader) throws(WireError) in try mergeFields(from: &reader) }
    }

    private func writeFields(to writer: inout WireWriter) {
        for field in Self.fields { field.write(self, &writer) }
        writer.append(unknownFields)
    }

    private mutating func mergeFields(from reader: inout WireReader) throws(WireError) {
        let fields = Self.fields
        while !reader.isAtEnd {
            let start = reader.position
            let (number, type) = try reader.tag()
            let field = fields.first { $0.number == number }
            if try field?.merge(&self, type, &reader) != true {
                try reader.skip(number, type)
                unknownFields += reader.bytes(since: start)
            }
        }
    }
}

/// A message inside another one. It reads as an empty message if it is absent; `$name` is nil then.
@propertyWrapper
package struct Submessage<Message: WireMessage>: Equatable, Sendable {
    package var projectedValue: Message?

    package init() {}

    package var wrappedValue: Message {
        get { projectedValue ?? Message() }
        set { projectedValue = newValue }
    }
}
