/// A JSON value that keeps the order of its keys (RFC 8259).
enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case number(Int)
    case decimal(Double)
    case string(String)
    case array([JSONValue])
    case object([Field])
    /// Text that is JSON already.
    case encoded(String)

    struct Field: Sendable, Equatable {
        let key: String
        let value: JSONValue
    }

    static func fields(_ fields: KeyValuePairs<String, JSONValue>) -> JSONValue {
        .object(fields.map { Field(key: $0.key, value: $0.value) })
    }

    static func optional(_ text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }
    static func optional(_ number: Int?) -> JSONValue { number.map(JSONValue.number) ?? .null }

    /// Whole milliseconds.
    static func milliseconds(_ duration: Duration) -> JSONValue {
        .number(Int(clamping: duration.components.seconds).multipliedClamping(1000) + duration.millisecondPart)
    }

    static func milliseconds(_ duration: Duration?) -> JSONValue { duration.map { milliseconds($0) } ?? .null }

    var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let value): String(value)
        case .decimal(let value): value.isFinite ? String(value) : "null"
        case .string(let text): Self.quoted(text)
        case .array(let values): "[" + values.map(\.text).joined(separator: ",") + "]"
        case .object(let fields):
            "{" + fields.map { Self.quoted($0.key) + ":" + $0.value.text }.joined(separator: ",") + "}"
        case .encoded(let text): text
        }
    }

    /// Escapes a string (RFC 8259 §7).
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let hex = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

extension Int {
    fileprivate func multipliedClamping(_ factor: Int) -> Int {
        let (product, overflow) = multipliedReportingOverflow(by: factor)
        return overflow ? Int.max / 2 : product
    }
}

extension Duration {
    fileprivate var millisecondPart: Int { Int(clamping: components.attoseconds / 1_000_000_000_000_000) }
}
