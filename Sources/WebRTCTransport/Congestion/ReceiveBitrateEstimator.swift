/// Estimates the receive bitrate for a remote peer without transport-cc. Loss-based, as in draft-ietf-rmcat-gcc-02
/// section 6: above 10 % loss it falls by half the loss, below 2 % it grows by 5 %.
package struct ReceiveBitrateEstimator {
    package private(set) var estimate: Int
    private let maximum: Int
    private let minimum = 100_000
    private var sequences = SerialNumber<UInt16>()
    private var expected = 0
    private var received = 0

    package init(maximum: Int) {
        self.maximum = max(maximum, minimum)
        estimate = self.maximum
    }

    package mutating func packet(sequence: UInt16) {
        received &+= 1
        let last = sequences.highest
        let number = sequences.record(sequence)
        expected &+= last.map { max(0, Int(number - $0)) } ?? 1
    }

    /// Ends the interval since the last call and updates the estimate.
    package mutating func update() {
        defer { (expected, received) = (0, 0) }
        guard expected > 0 else { return }
        let loss = Double(max(0, expected - received)) / Double(expected)
        if loss > 0.1 {
            estimate = max(minimum, Int(Double(estimate) * (1 - 0.5 * loss)))
        } else if loss < 0.02 {
            estimate = min(maximum, Int(Double(estimate) * 1.05))
        }
    }
}
