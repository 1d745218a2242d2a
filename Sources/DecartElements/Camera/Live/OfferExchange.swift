import WebRTCTransport

/// The way by which one offer reaches a camera's service. Methods are called on the camera's queue. The answers become
/// events of the view, on any thread; nothing comes after `end`.
protocol OfferExchange: Sendable {
    /// Hands the offer over. Call it once.
    func start(_ offer: OfferText, candidates: [String], isComplete: Bool)
    /// Hands over candidates that were gathered after `start`.
    func add(_ offer: OfferText, candidates: [String], isComplete: Bool)
    /// Asks for an extension of the granted duration.
    func extend()
    /// Ends the view at its service. It may wait briefly for the network.
    func end()
}
