/// User event to every connection: adds faults to a running session.
struct FaultNotice: Sendable {
    /// Nil: all sessions.
    var sessionID: String?
    var faults: [Fault]
}
