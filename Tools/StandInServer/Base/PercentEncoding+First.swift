import DecartProtocol

extension PercentEncoding {
    /// The query of a request target; the first of several items with the same name wins.
    static func firstQueryItems(ofTarget target: String) -> [String: String] {
        Dictionary(queryItems(ofTarget: target).map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}
