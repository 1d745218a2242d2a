/// Header fields that the user adds to a request, such as `Authorization`. They are secrets, and they go into the
/// request as they are, so `init` validates each one (RFC 9110 §5.1, §5.5).
package struct RequestHeaders: Sendable, Equatable {
    package static let maximumCount = 32
    private static let maximumSize = 8 << 10
    /// Fields that only the HTTP client sets: they determine where a request ends and which host it addresses.
    private static let reserved = [
        "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
    ]

    private let fields: [(name: String, value: Secret)]

    /// Throws `INVALID_OPTIONS`; the message contains no value.
    package init(_ pairs: [(name: String, value: String)] = []) throws(ProtocolError) {
        func refuse(_ reason: String) -> ProtocolError {
            ProtocolError(.invalidOptions, "api-key-headers \(reason).")
        }
        guard pairs.count <= Self.maximumCount,
            pairs.reduce(0, { $0 + $1.name.utf8.count + $1.value.utf8.count }) <= Self.maximumSize
        else { throw refuse("has more than \(Self.maximumCount) fields or 8 KiB") }
        for (name, value) in pairs {
            guard !name.isEmpty, name.utf8.allSatisfy({ $0.isAlphanumeric(or: "!#$%&'*+-.^_`|~") }) else {
                throw refuse("has a field whose name is not one (letters, digits and hyphens)")
            }
            guard !Self.reserved.contains(name.lowercased()) else { throw refuse("must not set \(name)") }
            guard value.utf8.allSatisfy({ $0 == 0x09 || (0x20...0x7E).contains($0) }) else {
                throw refuse("has a control or non-ASCII character in the value of \(name)")
            }
        }
        fields = pairs.map { ($0.name, Secret($0.value)) }
    }

    package static let none = RequestHeaders()

    private init() { fields = [] }

    package func reveal() -> [(name: String, value: String)] { fields.map { ($0.name, $0.value.reveal()) } }

    package static func == (left: RequestHeaders, right: RequestHeaders) -> Bool {
        left.fields.elementsEqual(right.fields) { $0.name == $1.name && $0.value == $1.value }
    }
}

extension RequestHeaders: Redacted {
    package var description: String { fields.isEmpty ? "none" : "<redacted>" }
}
