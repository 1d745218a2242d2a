/// The latest texts of a client, limited in number and in bytes.
struct RecentTexts: Sendable, Equatable {
    private(set) var texts: [String] = []
    private var size = 0

    private static let maximumCount = 4096
    /// Bytes; small because a thousand ended sessions are kept too.
    private static let maximumSize = 64 << 10

    /// Ignores a text that is larger than the limit for all texts.
    mutating func add(_ text: String) {
        guard text.utf8.count <= Self.maximumSize else { return }
        texts.append(text)
        size += text.utf8.count
        var excess = 0
        while texts.count - excess > Self.maximumCount || size > Self.maximumSize {
            size -= texts[excess].utf8.count
            excess += 1
        }
        texts.removeFirst(excess)
    }
}
