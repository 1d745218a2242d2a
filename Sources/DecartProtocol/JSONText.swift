// The only file that imports Foundation's JSON. Bytes in, values out; it knows no message type.
// Before anything is decoded, the text passes `JSONGuard`: Foundation's parser recurses, and on a small stack a deeply
// nested text is a segmentation fault, not an error.
import FoundationEssentials

package enum JSONText {
    /// Compact, keys sorted, slashes as they are: the same value always gives the same bytes.
    package static func encode(_ value: some Encodable) throws(ProtocolError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return [UInt8](try encoder.encode(value))
        } catch {
            throw ProtocolError(.processing, "A message could not be encoded as JSON.")
        }
    }

    /// Throws on anything that is not one well-formed object of the wanted form. Never quotes the text: it may hold a
    /// token, and Foundation's own error texts quote it.
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
    /// The kind and the key, without the value.
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
    // Keys are our own names: the containers here only ever ask for keys that this module knows.
    fileprivate var lastKey: String { codingPath.last?.stringValue ?? "the object" }
}
