package import DecartProtocol
package import ICE
package import Signalling

/// Everything that a check needs, validated.
package struct CheckConfiguration: Sendable {
    package static let defaultSTUNServer = "stun://stun.l.google.com:19302"

    /// URL of the service without a key.
    package var base: ServiceURL
    package var model: DecartModel
    /// nil: the key is not checked.
    package var key: APIKey?
    package var trust = TLSTrust.system
    /// Authorities for TURN servers: those of the system count too, as in the element.
    package var serverTrust = TLSTrust.system
    /// The way of TCP connections; its local address holds for STUN over UDP too.
    package var route = NetworkRoute()
    package var stun: ICEServer?
    package var turn: [ICEServer] = []
    /// True if rooms may be unencrypted on another machine.
    package var isInsecure = false
    /// Limit of each probe.
    package var limit = Duration.seconds(3)
    package var userAgent = "decart-check"

    package init(base: ServiceURL, model: DecartModel) {
        self.base = base
        self.model = model
    }

    /// The texts that no output may contain.
    package var secrets: [String] {
        [key?.reveal()].compactMap(\.self) + turn.compactMap(\.credential)
            + (route.proxy?.secrets.map { $0.reveal() } ?? [])
    }

    /// Facts for the report that are no failures, such as an unused proxy.
    /// - Parameter environment: value of a variable of the process.
    package func notes(environment: (String) -> String?) -> [String] {
        var notes: [String] = []
        let proxies = ["http_proxy", "https_proxy", "all_proxy"].flatMap { [$0, $0.uppercased()] }
        let named = proxies.filter { !(environment($0) ?? "").isEmpty }
        if !named.isEmpty, route.proxy == nil, !base.isLoopback {
            notes.append(
                "The environment has \(named.joined(separator: ", ")), which this program and the elements do not read: where "
                    + "only the proxy leads out, set --http-proxy, and http-proxy of the element.")
        }
        if let successor = model.successor {
            notes.append("The model \(model.name) is retired: use \(successor).")
        }
        return notes
    }

    /// The settings of a channel to the service or to a room.
    func channel(_ messages: WebSocketChannel.Messages = .text, trust: TLSTrust) -> WebSocketChannel.Configuration {
        var channel = WebSocketChannel.Configuration()
        channel.messages = messages
        channel.trust = trust
        channel.route = route
        channel.userAgent = userAgent
        return channel
    }
}

extension APIKey {
    /// True for a short-lived client token: `ek_…`, or a JSON Web Token.
    package var isClientToken: Bool {
        let text = reveal()
        return text.hasPrefix("ek_") || (text.hasPrefix("eyJ") && text.split(separator: ".").count == 3)
    }
}
