import DecartProtocol

extension JSONValue {
    static func optional(_ text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }
    static func optional(_ number: Int?) -> JSONValue { number.map(JSONValue.integer) ?? .null }

    static func milliseconds(_ duration: Duration?) -> JSONValue {
        duration.map { .number(($0 / .milliseconds(1)).rounded()) } ?? .null
    }
}
