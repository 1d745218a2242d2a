import WebRTCTransport

/// The way by which one offer reaches a camera's service. Methods are called on the camera's queue.
protocol OfferExchange: Sendable {
    /// Time that the offer should wait for candidates.
    static var gatheringLimit: Duration { get }

    /// Hands the offer over. Call it once.
    func start(_ offer: OfferText, candidates: [String], isComplete: Bool)
    /// Hands over candidates that were gathered after `start`.
    func add(_ offer: OfferText, candidates: [String], isComplete: Bool)
    /// Asks for an extension of the granted duration.
    func extend()
    /// Ends the view at its service. It may wait briefly for the network.
    func end()
}

/// Any thread; nothing comes after `end`.
enum OfferExchangeEvent: Sendable {
    case granted(LiveViewGrant)
    case refused(LiveViewFailure)
    case extended(Duration?)
    case extensionRefused(String)
}
