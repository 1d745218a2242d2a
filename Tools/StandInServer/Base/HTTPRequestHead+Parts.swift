import Network

extension HTTPRequestHead {
    /// Without the query.
    var path: Substring { target.prefix { $0 != "?" } }
    var host: String? { fields.first("Host") }
    /// The key of requests that are no sessions; sessions have it in their URL.
    var apiKey: String? { fields.first("x-api-key") }
}
