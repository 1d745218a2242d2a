import DecartProtocol
import GStreamerKit
import Signalling

extension SourceSettings {
    var answersOffers: Bool { source == Self.liveView || whepURL != nil }
    /// On the network, by live views.
    var isLiveCamera: Bool { answersOffers || RTSPURL.isRTSP(source) }

    /// The property `source` as it reads back: without passwords.
    static func shown(source: String) -> String {
        source.hasPrefix(whep) || RTSPURL.isRTSP(source)
            ? URLRedaction.redacted(source) : URLRedaction.withoutPasswords(source)
    }

    /// For a live view over the WHEP server at `url`.
    func whep(_ url: HTTPURL, _ access: MediaAccess) throws(ElementProblem) -> WHEPResource.Configuration {
        var configuration = WHEPResource.Configuration(url: url)
        configuration.http = HTTPConfiguration(
            trust: access.servers.trust, route: access.servers.route, userAgent: DecartElements.userAgent)
        configuration.token = whepToken
        if let whepToken {
            // It becomes a header field (RFC 6750 2.1).
            guard whepToken.reveal().utf8.count <= 4096,
                whepToken.reveal().utf8.allSatisfy({ (0x21...0x7E).contains($0) })
            else {
                throw ElementProblem(
                    .resourceSettings, "whep-token has more than 4096 bytes, or a character that a token cannot have.")
            }
        }
        guard whepToken == nil || url.credentials == nil else {
            throw ElementProblem(
                .resourceSettings,
                "source=whep: has a user name and password, and whep-token is set: a request can carry one of them. Unset "
                    + "the other.")
        }
        guard whepToken == nil && url.credentials == nil || url.protectsToken || access.servers.allowsInsecure else {
            throw ElementProblem(
                .resourceSettings,
                "source=whep:http:// is unencrypted and \(url.host) is not this machine: "
                    + "\(whepToken == nil ? "the password" : "whep-token") would travel in clear. Use https://, or set "
                    + "insecure=true.")
        }
        return configuration
    }
}
