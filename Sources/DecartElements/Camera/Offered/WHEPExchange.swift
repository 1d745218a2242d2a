// Offers by HTTP to a WHEP server. There is no limited duration.
import DecartSession
import Signalling
import WebRTCTransport

struct WHEPExchange: OfferExchange {
    /// Candidates of this host come at once; those of a STUN or TURN server may follow by PATCH.
    static let gatheringLimit = Duration.milliseconds(250)
    /// Time for the DELETE.
    private static let endLimit = Duration.seconds(1)

    private let resource: WHEPResource
    private let onEvent: @Sendable (OfferExchangeEvent) -> Void

    init(_ configuration: WHEPResource.Configuration, onEvent: @escaping @Sendable (OfferExchangeEvent) -> Void) {
        resource = WHEPResource(configuration)
        self.onEvent = onEvent
    }

    func start(_ offer: OfferText, candidates: [String], isComplete: Bool) {
        resource.start(offer: offer.with(candidates: candidates, isComplete: isComplete)) { [onEvent] result in
            switch result {
            case .success(let answer): onEvent(.granted(LiveViewGrant(answer: answer)))
            case .failure(let error): onEvent(.refused(LiveViewFailure(error)))
            }
        }
    }

    func add(_ offer: OfferText, candidates: [String], isComplete: Bool) {
        resource.add(fragment: offer.fragment(candidates: candidates, isComplete: isComplete))
    }

    func extend() { onEvent(.extensionRefused("a WHEP server grants no durations")) }

    func end() { resource.end(wait: Self.endLimit) }
}

extension LiveViewFailure {
    init(_ error: SessionError) {
        self.init(reason: error.message, retryAfter: error.retryAfter)
    }
}
