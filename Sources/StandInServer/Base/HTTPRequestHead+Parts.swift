import NIOHTTP1

extension HTTPRequestHead {
    /// Without the query.
    var path: Substring { uri.prefix { $0 != "?" } }
    var host: String? { headers.first(name: "Host") }
    /// The key of requests that are no sessions; sessions have it in their URL.
    var apiKey: String? { headers.first(name: "x-api-key") }
}
