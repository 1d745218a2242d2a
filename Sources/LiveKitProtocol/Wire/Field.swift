/// A row of a message's table: the number of a field on the wire, and the property that holds it.
package struct Field<Message>: Sendable {
    let number: Int
    let write: @Sendable (Message, inout WireWriter) -> Void
    /// Reads one occurrence of the field, in addition to those before it. Returns false, and reads nothing, if values of
    /// this type are delimited in another way.
    let merge: @Sendable (inout Message, WireType, inout WireReader) throws(WireError) -> Bool

    /// - Parameter get: Returns nil for a value that is not written.
    private init<Value: WireValue>(
        _ number: Int, get: @escaping @Sendable (Message) -> Value?,
        set: @escaping @Sendable (inout Message, Value?) -> Void
    ) {
        self.number = number
        write = { message, writer in
            if let value = get(message) { writer.field(number, value) }
        }
        merge = { (message, type, reader) throws(WireError) in
            guard type == Value.wireType else { return false }
            var value = get(message) ?? Value()
            // Taken out of the message, the value is merged in place: many parts of a long list cost no copies of it.
            set(&message, nil)
            try value.merge(from: &reader)
            set(&message, value)
            return true
        }
    }

    /// A value without presence: the default value is not written.
    init<Value: WireValue>(_ number: Int, _ path: any WritableKeyPath<Message, Value> & Sendable) {
        self.init(
            number, get: { $0[keyPath: path] == Value() ? nil : $0[keyPath: path] },
            set: { $0[keyPath: path] = $1 ?? Value() })
    }

    /// A value with presence.
    init<Value: WireValue>(_ number: Int, _ path: any WritableKeyPath<Message, Value?> & Sendable) {
        self.init(number, get: { $0[keyPath: path] }, set: { $0[keyPath: path] = $1 })
    }

    /// Repeated values. Varints are written packed, and read both packed and one by one.
    init<Value: WireValue>(_ number: Int, _ path: any WritableKeyPath<Message, [Value]> & Sendable) {
        self.number = number
        write = { message, writer in
            let values = message[keyPath: path]
            if Value.wireType == .varint, !values.isEmpty {
                writer.tag(number, .lengthDelimited)
                writer.delimited { for value in values { value.write(to: &$0) } }
            } else {
                for value in values { writer.field(number, value) }
            }
        }
        merge = { (message, type, reader) throws(WireError) in
            func append(_ reader: inout WireReader) throws(WireError) {
                var value = Value()
                try value.merge(from: &reader)
                message[keyPath: path].append(value)
            }
            if type == Value.wireType {
                try append(&reader)
            } else if type == .lengthDelimited, Value.wireType == .varint {
                try reader.delimited { (reader) throws(WireError) in
                    while !reader.isAtEnd { try append(&reader) }
                }
            } else {
                return false
            }
            return true
        }
    }

    /// A map is a repeated message with two fields, key and value. Its order on the wire means nothing; sorted, equal
    /// messages have equal bytes.
    init(_ number: Int, _ path: any WritableKeyPath<Message, [String: String]> & Sendable) {
        self.number = number
        write = { message, writer in
            for (key, value) in message[keyPath: path].sorted(by: { $0.key < $1.key }) {
                writer.tag(number, .lengthDelimited)
                writer.delimited { writer in
                    writer.field(1, key)
                    writer.field(2, value)
                }
            }
        }
        merge = { (message, type, reader) throws(WireError) in
            guard type == .lengthDelimited else { return false }
            var entry = MapEntry()
            try entry.merge(from: &reader)
            message[keyPath: path][entry.key] = entry.value
            return true
        }
    }
}

private struct MapEntry: WireMessage {
    static let fields: Fields = [Field(1, \.key), Field(2, \.value)]
    var (key, value) = ("", "")
}

// MARK: Oneofs

/// A message with one value of several kinds (protobuf's `oneof`): `message` is an enum with a case for each. The value
/// can also be read and set by the name of its case; while it has another kind, it reads as the default value.
@dynamicMemberLookup
package protocol OneOfMessage: WireMessage {
    associatedtype Message: Sendable
    associatedtype Cases: Sendable
    var message: Message? { get set }
    static var cases: Cases { get }
}

/// A case of a oneof: its number on the wire, how it is made from a value, and how the value is taken out of it.
package struct Case<Message, Value: WireValue>: Sendable {
    let number: Int
    let embed: @Sendable (Value) -> Message
    let extract: @Sendable (Message) -> Value?

    init(
        _ number: Int, _ embed: @escaping @Sendable (Value) -> Message,
        _ extract: @escaping @Sendable (Message) -> Value?
    ) {
        (self.number, self.embed, self.extract) = (number, embed, extract)
    }
}

extension OneOfMessage {
    package subscript<Value>(dynamicMember path: KeyPath<Cases, Case<Message, Value>>) -> Value {
        get { message.flatMap(Self.cases[keyPath: path].extract) ?? Value() }
        set { message = Self.cases[keyPath: path].embed(newValue) }
    }
}

extension Field where Message: OneOfMessage {
    /// The last kind that comes replaces the others; parts of the same kind are merged.
    init<Value>(_ oneOf: Case<Message.Message, Value>) {
        self.init(
            oneOf.number, get: { $0.message.flatMap(oneOf.extract) }, set: { $0.message = $1.map(oneOf.embed) })
    }
}
