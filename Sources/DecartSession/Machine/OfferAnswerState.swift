// Offers and answers of a direct connection on the control channel, as a value. One offer of ours is in flight at a
// time.
import DecartProtocol

struct OfferAnswerState: Sendable {
    private enum State { case none, first, answered, renegotiation }
    private var state = State.none
    /// Local candidates found before the first offer was sent.
    private var heldCandidates: [CandidateMessage?] = []

    /// A later offer waits for its answer.
    var isRenegotiating: Bool { state == .renegotiation }

    /// Begins an offer of ours.
    /// - Returns: the candidates to send behind it; nil if another offer waits for its answer.
    mutating func begin() -> [CandidateMessage?]? {
        switch state {
        case .first, .renegotiation: return nil
        case .none: state = .first
        case .answered: state = .renegotiation
        }
        return exchange(&heldCandidates, with: [])
    }

    /// - Returns: false for an answer without an offer.
    mutating func answered() -> Bool {
        guard state == .first || state == .renegotiation else { return false }
        state = .answered
        return true
    }

    /// Gives up a later offer; the connection stays as it was.
    /// - Returns: false if none waits for its answer.
    mutating func rollback() -> Bool {
        guard isRenegotiating else { return false }
        state = .answered
        return true
    }

    /// - Returns: true if a local candidate is to be sent now; others are held until the first offer.
    mutating func sends(_ candidate: CandidateMessage?) -> Bool {
        guard state == .none else { return true }
        if heldCandidates.count < 256 { heldCandidates.append(candidate) }
        return false
    }

    /// Why an offer of the service cannot be applied; nil: it can. While ours is in flight it is ignored, because a
    /// rollback of ours could leave our m-lines where the service puts its own.
    var refusalOfRemoteOffer: String? {
        switch state {
        case .answered: nil
        case .first, .renegotiation: "an offer of the service while ours waits for its answer"
        case .none: "an offer does not belong to this kind of session"
        }
    }
}
