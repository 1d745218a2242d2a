/// Feedback joined with the send history: the input of every estimate.
package struct ResolvedFeedback: Sendable {
    package struct Arrival: Sendable, Equatable {
        package var sendTime: Int64
        /// µs on the remote peer's clock.
        package var arrival: Int64
        package var size: Int

        package init(sendTime: Int64, arrival: Int64, size: Int) {
            self.sendTime = sendTime
            self.arrival = arrival
            self.size = size
        }
    }
    /// Packets that arrived and were not reported before, in order of sequence number.
    package var arrivals: [Arrival] = []
    package var lost = 0
    /// Packets that arrived after all, although they were reported as lost before.
    package var recovered = 0
    package var received = 0
    /// Bytes of packets that count as received but have no arrival time, because the feedback lacks it or was lost
    /// itself.
    package var unreportedBytes = 0
    /// Of the packets lost and received, those of full length, see `SentPacketHistory.isFull`.
    package var full = (lost: 0, received: 0)
    /// Send time of the newest packet that was received, µs; nil if none was.
    package var newestSendTime: Int64?
    package init() {}
}

package struct FeedbackAdapter: Sendable {
    private var clock = ArrivalClock()
    private var expected: UInt16?
    private var lastCount: UInt8 = 0
    package init() {}

    package mutating func resolve(_ feedback: TransportFeedback, with history: inout SentPacketHistory)
        -> ResolvedFeedback
    {
        var result = ResolvedFeedback()
        let reference = clock.microseconds(reference: feedback.referenceTime)
        skip(to: feedback, history: &history, into: &result)
        for packet in feedback.packets {
            guard let entry = history.entry(packet.sequence) else { continue }
            switch packet.status {
            case .lost:
                guard entry.fate == .unknown else { continue }
                history.setFate(.lost, of: packet.sequence)
                result.lost += 1
                if history.isFull(entry) { result.full.lost += 1 }
            case .received(let after):
                guard recordReceived(entry, history: &history, into: &result) else { continue }
                result.arrivals.append(
                    .init(sendTime: entry.sendTime, arrival: reference &+ after, size: Int(entry.size)))
            case .receivedWithoutTime:
                if recordReceived(entry, history: &history, into: &result) { result.unreportedBytes += Int(entry.size) }
            }
        }
        return result
    }

    private func recordReceived(
        _ entry: SentPacketHistory.Entry, history: inout SentPacketHistory, into result: inout ResolvedFeedback
    ) -> Bool {
        guard entry.fate != .received else { return false }
        if entry.fate == .lost { result.recovered += 1 }
        history.setFate(.received, of: entry.sequence)
        result.received += 1
        if history.isFull(entry) { result.full.received += 1 }
        result.newestSendTime = max(result.newestSendTime ?? .min, entry.sendTime)
        return true
    }

    /// Handles packets between the last feedback and this one: they are lost if no feedback message is missing, else
    /// unknown.
    private mutating func skip(
        to feedback: TransportFeedback, history: inout SentPacketHistory, into result: inout ResolvedFeedback
    ) {
        let end = feedback.baseSequence &+ UInt16(truncatingIfNeeded: feedback.packets.count)
        defer { lastCount = feedback.feedbackCount }
        guard let from = expected else {
            expected = end
            return
        }
        // Overlapping or late feedback must not move `expected` back.
        if Int16(bitPattern: end &- from) > 0 { expected = end }
        let gap = Int16(bitPattern: feedback.baseSequence &- from)
        guard gap > 0, gap < SentPacketHistory.capacity else { return }
        let noneMissing = feedback.feedbackCount == lastCount &+ 1
        var sequence = from
        while sequence != feedback.baseSequence {
            if let entry = history.entry(sequence), entry.fate == .unknown {
                if noneMissing {
                    history.setFate(.lost, of: sequence)
                    result.lost += 1
                    if history.isFull(entry) { result.full.lost += 1 }
                } else {
                    result.unreportedBytes += Int(entry.size)
                }
            }
            sequence &+= 1
        }
    }
}
