// Requests the reason for which a LiveKit server refused a signalling connection: its `validate` judges the same query, and
// answers with text. A WebSocket client may see a status alone, because proxies replace the body of a refused upgrade.
package import DecartProtocol
import DecartSession
import Network

package enum RoomValidation {
    /// Servers answer with one sentence.
    private static let maximumSize = 4096
    private static let limit = Duration.seconds(3)

    /// - Parameters:
    ///   - url: of the refused signalling connection.
    ///   - refusesLocal: see `NetworkRoute.destination`.
    ///   - completion: called once, on the network thread, with the reason; nil: the server names none. Must not block.
    package static func reason(
        refusing url: ServiceURL, refusesLocal: Bool = false, configuration: HTTPConfiguration,
        completion: @escaping @Sendable (String?) -> Void
    ) {
        guard let bearer = url.bearer else { return completion(nil) }
        var configuration = configuration
        (configuration.limit, configuration.resolveLimit) = (limit, limit)
        let request = HTTPRequest(
            url: url.validation.http, method: "GET",
            fields: HTTPFields([("Authorization", "Bearer \(bearer.reveal())")]),
            maximumSize: maximumSize, configuration: configuration, refusesLocal: refusesLocal)
        HTTPExchange(request) { outcome in
            // An answer of 2xx says that the server would take the connection now.
            guard case .answer(let head, let body) = outcome, head.status >= 400 else { return completion(nil) }
            completion(UpgradeRefusal(head: head, body: body, url: url).error.refusal)
        }.start()
    }
}
