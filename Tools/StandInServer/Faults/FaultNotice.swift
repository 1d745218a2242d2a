/// Notice to every connection: adds faults to a running session.
struct FaultNotice: Sendable {
    var sessionID: String?
    var faults: [Fault]
}
