/// Samples of one measurement, and their statistics for a table.
struct Samples: Sendable {
    private(set) var values: [Double] = []

    init(_ values: [Double] = []) { self.values = values }

    mutating func add(_ value: Double) { values.append(value) }

    var isEmpty: Bool { values.isEmpty }
    var median: Double? { percentile(50) }

    func percentile(_ percent: Double) -> Double? {
        let sorted = values.sorted()
        guard let first = sorted.first, let last = sorted.last else { return nil }
        let position = percent / 100 * Double(sorted.count - 1)
        let lower = Int(position)
        guard lower + 1 < sorted.count else { return sorted.count == 1 ? first : last }
        return sorted[lower] + (sorted[lower + 1] - sorted[lower]) * (position - Double(lower))
    }

    /// Returns "median (smallest–largest)".
    func text(_ digits: Int = 1) -> String {
        guard let median, let low = values.min(), let high = values.max() else { return "–" }
        guard values.count > 1 else { return fixed(median, digits) }
        return "\(fixed(median, digits)) (\(fixed(low, digits))–\(fixed(high, digits)))"
    }
}

/// Formats a number with this many decimals.
func fixed(_ value: Double, _ digits: Int = 1) -> String {
    guard value.isFinite, abs(value) < 1e12 else { return "–" }
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((abs(value) * scale).rounded())
    let sign = value < 0 && scaled != 0 ? "-" : ""
    guard digits > 0 else { return "\(sign)\(scaled)" }
    let fraction = String(scaled % Int(scale))
    return "\(sign)\(scaled / Int(scale)).\(String(repeating: "0", count: digits - fraction.count))\(fraction)"
}

func ratio(_ a: Double?, _ b: Double?) -> String {
    guard let a, let b, b != 0 else { return "–" }
    return fixed(a / b, 2)
}
