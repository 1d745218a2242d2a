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
        try JSONGuard.check(bytes, maximumSize: maximumSize)
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
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
