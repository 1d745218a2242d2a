/// Further query items of the service's URL, as the application writes them: `a=b&c=d`, percent-encoded.
package enum QueryItems {
    private static let maximumCount = 32
    /// Bytes.
    private static let maximumSize = 4096
    /// Set by the element alone. `resolution` and `speed` may have values that the properties do not know.
    private static let reserved: Set<String> = [
        "api_key", "model", "pixel_latency", "livekit_early_room_info", "ip", "port",
    ]

    /// Throws `INVALID_OPTIONS`. The error names an item, but never quotes a value, which may be a secret.
    package static func parse(_ text: String) throws(ProtocolError) -> [(name: String, value: String)] {
        guard text.utf8.count <= maximumSize else { throw invalid("has more than \(maximumSize) bytes") }
        var items: [(name: String, value: String)] = []
        for part in text.split(separator: "&", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, let name = PercentEncoding.decode(pair[0]), !name.isEmpty else {
                throw invalid("has an item without a name or without '='")
            }
            guard let value = PercentEncoding.decode(pair[1]), !value.utf8.contains(0), !name.utf8.contains(0) else {
                throw invalid("has an invalid percent-encoding in the item \(name.printable(limit: 64))")
            }
            guard !reserved.contains(name.lowercased()) else {
                throw invalid("may not contain \(name.printable(limit: 64)), which the element sets itself")
            }
            items.append((name, value))
        }
        guard items.count <= maximumCount else { throw invalid("has more than \(maximumCount) items") }
        return items
    }

    private static func invalid(_ what: String) -> ProtocolError {
        ProtocolError(.invalidOptions, "query-items \(what). Write it as name=value&name=value.")
    }
}
