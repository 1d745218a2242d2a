/// The account's concurrent sessions: `RealtimeQuotaResponse` in the service's OpenAPI file, where each number may be null.
package struct RealtimeQuota: Sendable, Equatable {
    /// Largest response body that is read, in bytes.
    package static let maximumSize = 64 << 10

    package let limit: Int?
    package let active: Int?
    package let remaining: Int?

    package init(decoding bytes: [UInt8]) throws(ProtocolError) {
        self = try JSONText.read(bytes, maximumSize: Self.maximumSize) { try RealtimeQuota($0) }
    }

    private init(_ container: KeyedDecodingContainer<WireKey>) throws {
        guard container.contains("limit") else {
            throw ProtocolError(.server, "A message is malformed: limit is missing.")
        }
        limit = container.integer("limit")
        active = container.integer("active")
        remaining = container.integer("remaining")
    }

    /// True if the service refuses a further session.
    package var isUsedUp: Bool {
        if let remaining { return remaining <= 0 }
        guard let limit, let active else { return false }
        return active >= limit
    }
}
