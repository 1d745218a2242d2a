// Any JSON value: to read messages whose fields are not known, and to write reports and answers.

package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSONValue])
    /// The fields in the order in which they are written.
    case object([Field])

    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: JSONValue

        package init(_ name: String, _ value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    package static func integer(_ value: Int) -> JSONValue { .number(Double(value)) }

    /// Leaves out the fields without a value.
    package static func fields(_ fields: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(fields.compactMap { field in field.value.map { Field(field.key, $0) } })
    }

    package subscript(name: String) -> JSONValue? {
        guard case .object(let fields) = self else { return nil }
        return fields.first { $0.name == name }?.value
    }

    package var string: String? { if case .string(let text) = self { text } else { nil } }

    /// Decodes one JSON object; the fields are sorted by name. Throws if it is malformed or larger than a message.
    package init(decoding bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.decode(JSONValue.self, from: bytes, maximumSize: ClientMessage.maximumSize)
    }

    /// The value as text with two spaces for each level.
    package var text: String {
        var output = ""
        write(to: &output, indent: "")
        return output
    }

    /// The value as text on one line.
    package var compactText: String {
        var output = ""
        write(to: &output, indent: nil)
        return output
    }

    /// - Parameter indent: Nil: everything on one line.
    private func write(to output: inout String, indent: String?) {
        let deeper = indent.map { $0 + "  " }
        switch self {
        case .null: output += "null"
        case .bool(let value): output += value ? "true" : "false"
        case .number(let value): output += Self.number(value)
        case .string(let value): output += Self.quoted(value)
        case .array(let values):
            Self.list(values, "[", "]", &output, indent) { $0.write(to: &$1, indent: deeper) }
        case .object(let fields):
            Self.list(fields, "{", "}", &output, indent) {
                $1 += Self.quoted($0.name) + (indent == nil ? ":" : ": ")
                $0.value.write(to: &$1, indent: deeper)
            }
        }
    }

    private static func list<Item>(
        _ items: [Item], _ open: String, _ close: String, _ output: inout String, _ indent: String?,
        write: (Item, inout String) -> Void
    ) {
        output += open
        for (index, item) in items.enumerated() {
            output += (index == 0 ? "" : ",") + (indent.map { "\n" + $0 + "  " } ?? "")
            write(item, &output)
        }
        output += (items.isEmpty ? "" : indent.map { "\n" + $0 } ?? "") + close
    }

    private static func number(_ value: Double) -> String {
        guard value.isFinite else { return "null" }
        return Int(exactly: value).map(String.init) ?? String(value)
    }

    private static func quoted(_ text: String) -> String {
        var output = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": output += "\\\""
            case "\\": output += "\\\\"
            case "\n": output += "\\n"
            default:
                if scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) {
                    let digits = String(scalar.value, radix: 16)
                    output += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                } else {
                    output.unicodeScalars.append(scalar)
                }
            }
        }
        return output + "\""
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSONValue: Decodable {
    package init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: WireKey.self) {
            let keys = container.allKeys.sorted { $0.stringValue < $1.stringValue }
            self = .object(
                try keys.map { Field($0.stringValue, try container.decode(JSONValue.self, forKey: $0)) })
            return
        }
        if var container = try? decoder.unkeyedContainer() {
            var values: [JSONValue] = []
            while !container.isAtEnd { values.append(try container.decode(JSONValue.self)) }
            self = .array(values)
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else {
            self = .string(try container.decode(String.self))
        }
    }
}
