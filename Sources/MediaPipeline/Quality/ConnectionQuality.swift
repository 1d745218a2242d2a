// Judges how good a running session is, and what limits it, as a value on virtual time: one reading of the statistics a
// second goes in. Bands, window, warm-up and hysteresis are those of the service's own SDKs; their three limits separate
// four levels here. The frame rate is judged against the rate that is sent, because inputs have any rate.

package enum ConnectionQuality: String, Sendable, CaseIterable, Comparable {
    /// No session, or too short to judge.
    case unknown
    case excellent, good, poor, critical

    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }
    private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// The cause that keeps the quality from being excellent.
package enum LimitingFactor: String, Sendable, CaseIterable {
    case none
    /// The network carries less than the bitrate range allows.
    case bandwidth
    /// Round trip, or glass to glass.
    case latency
    case loss
    /// No frames arrive.
    case stall
    /// This machine loses frames before the encoder, or sends fewer because it is busy.
    case cpu
    /// The service returns too few frames although the network and this machine are well.
    case service
}

/// Counters and values of one moment; counters since any fixed time.
package struct QualityReading: Sendable, Equatable {
    package var framesIn: UInt64 = 0
    package var framesSent: UInt64 = 0
    package var framesReceived: UInt64 = 0
    /// Frames lost because this machine was busy.
    package var framesBusy: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    /// Packets that should have been received and were not; nil: unknown.
    package var packetsLost: Int?
    package var packetsSent: UInt64 = 0
    /// Sent packets that the remote peer reports as lost; nil: no report yet.
    package var remotePacketsLost: Int?
    package var roundTrip: Duration?
    package var isRelayed = false
    /// From input to decoded frame; nil: not measured.
    package var glassToGlass: Duration?
    /// Bitrate that the network carries, as a fraction of the highest one that is wanted, 0...1.
    package var bandwidthRatio: Double?
    /// Frames that the CPU carries, as a fraction of all, 0...1.
    package var cpuRatio: Double?
    /// Frames come in, and none has left for seconds.
    package var isSendingStalled = false
    /// The service returns one frame again and again.
    package var isFrameRepeated = false
    /// Why no frames come, if the room tells; nil: they should come.
    package var causeOfSilence: LimitingFactor?

    package init() {}
}

package struct QualityJudge: Sendable {
    package struct Verdict: Sendable, Equatable {
        package var quality = ConnectionQuality.unknown
        package var factor = LimitingFactor.none

        package init() {}

        package init(quality: ConnectionQuality, factor: LimitingFactor = .none) {
            (self.quality, self.factor) = (quality, factor)
        }
    }

    /// The values of which a verdict is made; nil: unknown.
    package struct Figures: Sendable, Equatable {
        package var roundTrip: Duration?
        package var glassToGlass: Duration?
        /// The larger fraction of both directions.
        package var loss: Double?
        package var bandwidthRatio: Double?
        package var cpuRatio: Double?
        /// Frames per second of the last reading.
        package var framesSent: Double?
        package var framesReceived: Double?

        package init() {}
    }

    /// Seconds over which loss, drops and frame rate are averaged, without the two worst: a disturbance of two seconds
    /// changes nothing.
    private static let window = 10
    /// Seconds of which delay and bandwidth are the median.
    private static let shortWindow = 5
    private static let warmUp = 8
    /// Readings for a first verdict, which lacks what takes longer: a bitrate that rises, the model's first frames.
    private static let firstVerdict = 3
    /// Readings that must agree on another verdict before it is shown.
    private static let hysteresis = 5

    package private(set) var verdict = Verdict()
    /// The session is too young for all values: only delay, loss and this machine are judged.
    package var isWarmingUp: Bool { seen < Self.warmUp }
    private var readings: [QualityReading] = []
    private var seen = 0
    /// The path's own round trip, without queues.
    private var shortestRoundTrip: Duration?
    /// Counts the readings in a row that have reached another verdict: a worse (1), a better (-1), or another factor (0).
    private var next: (side: Int, count: Int)?

    package init() {}

    /// Call at the start of a connection: nothing is known about it.
    package mutating func reset() { self = QualityJudge() }

    /// - Returns: true if the verdict has changed.
    package mutating func add(_ reading: QualityReading) -> Bool {
        readings.append(reading)
        if readings.count > Self.window + 1 { readings.removeFirst() }
        seen += 1
        if let delay = reading.roundTrip { shortestRoundTrip = min(shortestRoundTrip ?? delay, delay) }
        guard seen >= Self.firstVerdict else { return false }
        let before = verdict
        // A value near a bound does not keep a first verdict, and a change needs no hysteresis.
        if seen == Self.warmUp { verdict = Verdict() }
        let now = judge()
        if verdict.quality == .unknown {
            verdict = now
        } else if now == verdict {
            next = nil
        } else {
            // Verdicts on the same side count together: a quality that falls further is no reason to wait longer.
            let side = now.quality == verdict.quality ? 0 : now.quality > verdict.quality ? 1 : -1
            let count = next?.side == side ? (next?.count ?? 0) + 1 : 1
            next = (side, count)
            if count >= Self.hysteresis {
                verdict = now
                next = nil
            }
        }
        return verdict != before
    }

    // MARK: One judgement

    private func judge() -> Verdict {
        // The first of equal levels wins, so a cause comes before its effects: a narrow network makes queues, and both make
        // the delay long and the frame rate low.
        var levels: [(LimitingFactor, ConnectionQuality)] = []
        if let shortestRoundTrip { levels.append((.latency, level(ofRoundTrip: shortestRoundTrip))) }
        if let ratio = median(recent(\.cpuRatio)) { levels.append((.cpu, level(1 - ratio, (0.001, 0.52, 0.8)))) }
        if let loss { levels.append((.loss, level(loss, (0.001, 0.01, 0.05)))) }
        if !isWarmingUp, let ratio = median(recent(\.bandwidthRatio)) {
            levels.append((.bandwidth, level(1 - ratio, (0.001, 0.2, 0.5))))
        }
        if let delay = median(recent(\.roundTrip)) { levels.append((.latency, level(ofRoundTrip: delay))) }
        if !isWarmingUp, let time = median(recent(\.glassToGlass)) {
            levels.append((.latency, level(time / .milliseconds(1), (500, 900, 1500))))
        }
        if let busy = mean(ratios(\.framesBusy, of: \.framesIn), worst: >) {
            levels.append((.cpu, level(busy, (0.001, 0.01, 0.05))))
        }
        if !isWarmingUp, let rate = mean(ratios(\.framesReceived, of: \.framesSent), worst: <) {
            levels.append((rate < 0.05 ? .stall : .service, level(1 - rate, (0.2, 0.52, 0.8))))
        }
        if readings.last?.isSendingStalled == true { levels.append((.stall, .critical)) }
        if readings.last?.isFrameRepeated == true { levels.append((.service, .critical)) }
        guard let worst = levels.map(\.1).max() else { return Verdict() }
        guard worst > .excellent else { return Verdict(quality: .excellent) }
        let factor = levels.first { $0.1 == worst }?.0 ?? .none
        // Frames that do not arrive at all are what the user sees, whatever the network reports.
        let isStalled = levels.contains { $0.0 == .stall }
        return Verdict(quality: worst, factor: isStalled ? readings.last?.causeOfSilence ?? .stall : factor)
    }

    package var figures: Figures {
        var figures = Figures()
        (figures.roundTrip, figures.glassToGlass) = (median(recent(\.roundTrip)), median(recent(\.glassToGlass)))
        (figures.bandwidthRatio, figures.cpuRatio) = (median(recent(\.bandwidthRatio)), median(recent(\.cpuRatio)))
        (figures.loss, figures.framesSent) = (loss, lastRate(\.framesSent))
        figures.framesReceived = lastRate(\.framesReceived)
        return figures
    }

    private func lastRate(_ path: KeyPath<QualityReading, UInt64>) -> Double? {
        let last = readings.suffix(2).map { $0[keyPath: path] }
        guard let before = last.first, let after = last.last, last.count == 2 else { return nil }
        return Double(after &- min(before, after))
    }

    private func level(ofRoundTrip delay: Duration) -> ConnectionQuality {
        let allowance: Duration = readings.last?.isRelayed == true ? .milliseconds(100) : .zero
        return level((delay - allowance) / .milliseconds(1), (150, 300, 500))
    }

    /// - Parameter bounds: largest values of `excellent`, `good` and `poor`. A value near a bound does not change the
    ///   verdict: it must pass the bound by a quarter to make it worse, and by a fifth to make it better.
    private func level(_ value: Double, _ bounds: (Double, Double, Double)) -> ConnectionQuality {
        for (bound, quality) in [(bounds.0, ConnectionQuality.excellent), (bounds.1, .good), (bounds.2, .poor)] {
            let isWorse = verdict.quality > quality
            let factor = verdict.quality == .unknown ? 1 : isWorse ? 0.8 : 1.25
            // No value of a fraction passes 1.
            if value <= (bound < 1 ? min(bound * factor, (bound + 1) / 2) : bound * factor) { return quality }
        }
        return .critical
    }

    private func median<Value: Comparable>(_ values: [Value]) -> Value? {
        values.isEmpty ? nil : values.sorted()[values.count / 2]
    }

    private func recent<Value>(_ path: KeyPath<QualityReading, Value?>) -> [Value] {
        readings.suffix(Self.shortWindow).compactMap { $0[keyPath: path] }
    }

    /// The mean without the two worst values; the best one if there are no others.
    private func mean(_ values: [Double], worst: (Double, Double) -> Bool) -> Double? {
        let sorted = values.sorted(by: worst)
        guard sorted.count > 2 else { return sorted.last }
        let rest = sorted.dropFirst(2)
        return rest.reduce(0, +) / Double(rest.count)
    }

    /// The larger fraction of lost packets of both directions.
    private var loss: Double? {
        let down = losses(\.packetsLost) { before, after, lost in
            after.packetsReceived &- min(before.packetsReceived, after.packetsReceived) &+ lost
        }
        let up = losses(\.remotePacketsLost) { before, after, _ in
            after.packetsSent &- min(before.packetsSent, after.packetsSent)
        }
        return [mean(up, worst: >), mean(down, worst: >)].compactMap(\.self).max()
    }

    /// For each second the fraction of lost packets.
    /// - Parameter expected: packets from one reading to the next, of which `lost` were lost.
    private func losses(
        _ path: KeyPath<QualityReading, Int?>,
        _ expected: (_ before: QualityReading, _ after: QualityReading, _ lost: UInt64) -> UInt64
    ) -> [Double] {
        zip(readings, readings.dropFirst()).compactMap { before, after in
            guard let first = before[keyPath: path], let last = after[keyPath: path] else { return nil }
            let lost = UInt64(max(0, last - first))
            let all = expected(before, after, lost)
            return all < 10 ? nil : min(Double(lost) / Double(all), 1)
        }
    }

    /// For each second the fraction of frames, where there were enough of them.
    private func ratios(_ part: KeyPath<QualityReading, UInt64>, of whole: KeyPath<QualityReading, UInt64>) -> [Double]
    {
        zip(readings, readings.dropFirst()).compactMap { before, after in
            let all = after[keyPath: whole] &- min(before[keyPath: whole], after[keyPath: whole])
            guard all >= 3 else { return nil }
            return Double(after[keyPath: part] &- min(before[keyPath: part], after[keyPath: part])) / Double(all)
        }
    }
}
