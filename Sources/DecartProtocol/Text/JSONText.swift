// The only file that imports Foundation's JSON coders. Converts between bytes and values, and knows no message type.
// `JSONGuard` checks each text first: Foundation's parser recurses, so deep nesting on a small stack is a segmentation
// fault, not an error.
import FoundationEssentials

package enum JSONText {
    /// Writes compact JSON with sorted keys and unescaped slashes: equal values give equal bytes.
    package static func encode(_ value: some Encodable) throws(ProtocolError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return [UInt8](try encoder.encode(value))
        } catch {
            throw ProtocolError(.processing, "A message could not be encoded as JSON.")
        }
    }

    /// Throws unless the text is one well-formed object of the given type. Errors never quote the text: it may hold a
    /// token, and Foundation's own error texts would quote it.
    package static func decode<Value: Decodable>(
        _ type: Value.Type, from bytes: [UInt8], maximumSize: Int
    ) throws(ProtocolError) -> Value {
        try checked(bytes, maximumSize) { try JSONDecoder().decode(type, from: $0) }
    }

    /// The same for an object whose fields `read` takes.
    static func read<Value>(
        _ bytes: [UInt8], maximumSize: Int, _ read: @escaping Fields<Value>.DecodingConfiguration
    ) throws(ProtocolError) -> Value {
        try checked(bytes, maximumSize) {
            try JSONDecoder().decode(Fields<Value>.self, from: $0, configuration: read).value
        }
    }

    struct Fields<Value>: DecodableWithConfiguration {
        typealias DecodingConfiguration = (KeyedDecodingContainer<WireKey>) throws -> Value
        fileprivate let value: Value

        init(from decoder: any Decoder, configuration: @escaping DecodingConfiguration) throws {
            value = try configuration(decoder.container(keyedBy: WireKey.self))
        }
    }

    private static func checked<Value>(
        _ bytes: [UInt8], _ maximumSize: Int, _ decode: (Data) throws -> Value
    ) throws(ProtocolError) -> Value {
        try JSONGuard.check(bytes, maximumSize: maximumSize)
        do {
            return try decode(Data(bytes))
        } catch let error as ProtocolError {
            throw error
        } catch let error as DecodingError {
            throw ProtocolError(.server, "A message is malformed: \(error.redactedReason).")
        } catch {
            throw ProtocolError(.server, "A message is malformed.")
        }
    }
}

extension DecodingError {
    /// Names the kind of error and the key, but not the value.
    fileprivate var redactedReason: String {
        switch self {
        case .keyNotFound(let key, _): "\(key.stringValue) is missing"
        case .typeMismatch(_, let context): "\(context.lastKey) has the wrong type"
        case .valueNotFound(_, let context): "\(context.lastKey) is null"
        case .dataCorrupted(let context): context.codingPath.isEmpty ? "not JSON" : "\(context.lastKey) is not valid"
        @unknown default: "not understood"
        }
    }
}

extension DecodingError.Context {
    // Safe to show: the containers of this module only ask for key names that it defines itself.
    fileprivate var lastKey: String { codingPath.last?.stringValue ?? "the object" }
}
