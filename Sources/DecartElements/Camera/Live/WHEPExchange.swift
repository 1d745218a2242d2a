// Offers by HTTP to a WHEP server. There is no limited duration.
import DecartSession
import Signalling
import WebRTCTransport

struct WHEPExchange: OfferExchange {
    /// Time for the DELETE.
    private static let endLimit = Duration.seconds(1)

    private let resource: WHEPResource
    private let view: Int
    /// Returns true if a view has to begin again with the servers.
    private let onServers: @Sendable ([ICEServerLink]) -> Bool
    private let onEvent: @Sendable (LiveViewMachine.Event) -> Void

    init(
        _ configuration: WHEPResource.Configuration, view: Int,
        onServers: @escaping @Sendable ([ICEServerLink]) -> Bool,
        onEvent: @escaping @Sendable (LiveViewMachine.Event) -> Void
    ) {
        resource = WHEPResource(configuration)
        (self.view, self.onServers, self.onEvent) = (view, onServers, onEvent)
    }

    func start(_ offer: OfferText, candidates: [String], isComplete: Bool) {
        resource.start(offer: offer.with(candidates: candidates, isComplete: isComplete)) {
            [view, onServers, onEvent, hasAudio = offer.hasAudio] result in
            switch result {
            case .success(let answer):
                onEvent(
                    onServers(answer.servers)
                        ? .relaysNamed(view: view) : .granted(view: view, LiveViewGrant(answer: answer.sdp)))
            case .failure(let error):
                let mayBeAudio = hasAudio && [400, 406, 415].contains(error.httpStatus ?? 0)
                onEvent(
                    .failed(
                        view: view,
                        LiveViewFailure(
                            reason: error.message, retryAfter: error.retryAfter, mayBeAudio: mayBeAudio)))
            }
        }
    }

    func add(_ offer: OfferText, candidates: [String], isComplete: Bool) {
        resource.add(fragment: offer.fragment(candidates: candidates, isComplete: isComplete))
    }

    func extend() { onEvent(.extensionRefused(view: view, reason: "a WHEP server grants no durations")) }

    func end() { resource.end(wait: Self.endLimit) }
}
