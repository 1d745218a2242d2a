import DecartProtocol
import GStreamerKit
import MediaPipeline
import Signalling
import WebRTCTransport

extension SourceSettings {
    var answersOffers: Bool { source == Self.liveView || whepURL != nil }

    /// The camera that `source` names; nil for another source.
    /// - Parameters:
    ///   - liveViews: requests that the application answers.
    ///   - talkback: audio for the camera, while it has an input.
    ///   - isEncoded: the camera's frames are forwarded without being decoded.
    ///   - current: the settings as of now.
    ///   - hasHandler: the application handles `request-live-view`.
    func offeredCamera(
        _ transform: DecartTransform, liveViews: LiveViewRequests, talkback: AudioTrack, hasHandler: Bool,
        isEncoded: Bool, current: @escaping @Sendable () -> SourceSettings
    ) throws(ElementProblem) -> OfferedCamera.Settings? {
        guard answersOffers else { return nil }
        let service: OfferedCamera.Service
        let label: String
        let access: MediaAccess
        do {
            let url = try whepURL.map { text throws(ProtocolError) in try HTTPURL(whep: text) }
            access = try transform.mediaAccess(isLoopback: url?.isLoopback ?? false)
            if let url {
                // Wrong settings fail the start of the element, not each live view.
                _ = try whep(url, access)
                service = .whep { () throws(ElementProblem) in try current().whep(url, access) }
                label = "the WHEP camera at \(url.host)"
            } else {
                guard hasHandler else {
                    throw ElementProblem(
                        .resourceSettings,
                        "source=live-view needs the application: connect a handler to the signal request-live-view.")
                }
                (service, label) = (.signals(liveViews), "the camera of the application")
            }
        } catch let error as ElementProblem {
            throw error
        } catch {
            throw ElementProblem(.resourceSettings, (error as? ProtocolError)?.message ?? "source cannot be used.")
        }
        let encodedCodecs: @Sendable () -> [VideoCodec] = { [weak transform] in transform?.encodedCodecs ?? [] }
        return OfferedCamera.Settings(
            service: service, label: label, access: access, takesAudio: audioSource == Self.cameraAudio,
            talkback: talkback,
            encodedCodecs: isEncoded ? encodedCodecs : nil)
    }

    private func whep(_ url: HTTPURL, _ access: MediaAccess) throws(ElementProblem) -> WHEPResource.Configuration {
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
            guard url.protectsToken || access.servers.allowsInsecure else {
                throw ElementProblem(
                    .resourceSettings,
                    "source=whep:http:// is unencrypted and \(url.host) is not this machine: whep-token would travel in "
                        + "clear. Use https://, or set insecure=true.")
            }
        }
        return configuration
    }
}
