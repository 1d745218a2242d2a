import Foundation

/// The account and the address of the service.
public struct DecartConfiguration: Sendable {
    /// An API key, or a short-lived client token, as your own server hands it out.
    public let apiKey: String
    /// nil: `DECART_BASE_URL` of the environment, else the service's own URL.
    public let baseURL: String?

    /// The service that the environment names, else Decart's.
    public init(apiKey: String) { (self.apiKey, baseURL) = (apiKey, nil) }

    /// A service at a `wss`, `https`, `ws` or `http` URL; the last two for this machine only.
    ///
    /// Throws `DecartError.invalidBaseURL` if it is malformed.
    public init(apiKey: String, baseURL: String) throws(DecartError) {
        guard let parts = URLComponents(string: baseURL), let scheme = parts.scheme?.lowercased(),
            ["wss", "https", "ws", "http"].contains(scheme), let host = parts.host, !host.isEmpty
        else { throw .invalidBaseURL(baseURL) }
        (self.apiKey, self.baseURL) = (apiKey, baseURL)
    }

    /// The same with the order of Decart's SDK.
    public init(baseURL: String, apiKey: String) throws(DecartError) { try self.init(apiKey: apiKey, baseURL: baseURL) }
}
