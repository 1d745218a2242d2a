/// Pre-filtering (draft-ietf-rmcat-gcc-02 section 5.2): packets that were sent within 5 ms, or that arrived in one
/// burst after cross traffic, are one group. The estimate uses the change of delay from group to group (section 5.1).
package struct InterArrivalGrouper: Sendable {
    /// Intervals between the last packets of two groups, ms.
    package struct InterGroupDelay: Sendable, Equatable {
        package var send: Double
        package var arrival: Double
        /// d(i) of section 5.1.
        package var delay: Double { arrival - send }
        /// Time when the later group was complete, µs on the remote peer's clock.
        package var time: Int64

        package init(send: Double, arrival: Double, time: Int64) {
            self.send = send
            self.arrival = arrival
            self.time = time
        }
    }

    private struct Group {
        var firstSend: Int64
        var lastSend: Int64
        var firstArrival: Int64
        var lastArrival: Int64
    }
    private static let burst: Int64 = 5_000
    /// Larger changes are a step of the remote clock or a suspended machine, not a queue. µs.
    private static let jump: Int64 = 3_000_000
    private var current: Group?
    private var previous: Group?
    package init() {}

    /// Returns a variation whenever a group has become complete. Times in µs.
    package mutating func add(sendTime: Int64, arrival: Int64) -> InterGroupDelay? {
        guard var group = current else {
            current = Group(firstSend: sendTime, lastSend: sendTime, firstArrival: arrival, lastArrival: arrival)
            return nil
        }
        // A reordered packet belongs to a group that is already complete.
        guard sendTime >= group.firstSend else { return nil }
        if belongs(sendTime, arrival, to: group) {
            group.lastSend = max(group.lastSend, sendTime)
            group.lastArrival = max(group.lastArrival, arrival)
            current = group
            return nil
        }
        defer {
            previous = group
            current = Group(firstSend: sendTime, lastSend: sendTime, firstArrival: arrival, lastArrival: arrival)
        }
        guard let previous else { return nil }
        let send = group.lastSend &- previous.lastSend
        let received = group.lastArrival &- previous.lastArrival
        guard abs(Double(received) - Double(send)) < Double(Self.jump) else { return nil }
        return InterGroupDelay(send: Double(send) / 1000, arrival: Double(received) / 1000, time: group.lastArrival)
    }

    private func belongs(_ sendTime: Int64, _ arrival: Int64, to group: Group) -> Bool {
        if sendTime &- group.firstSend <= Self.burst { return true }
        let sendStep = sendTime &- group.lastSend
        let arrivalStep = arrival &- group.lastArrival
        // A burst on arrival: less than `burst` after the previous packet, and with less delay.
        return arrivalStep >= 0 && arrivalStep <= Self.burst && arrivalStep < sendStep
            && arrival &- group.firstArrival < 100_000
    }
}
