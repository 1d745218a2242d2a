import Glibc

/// What a test measures, and what is asserted of it only by `scripts/verify`, which repeats it on an idle machine.
/// `scripts/test` runs wherever a developer is, beside other work: it asserts what happens, never how fast.
package enum Verification {
    /// `scripts/verify` runs this process. Tests that only measure are enabled by it.
    package static let isOn = getenv("DECART_VERIFY") != nil
    package static let comment = "scripts/verify runs it"
}

/// Prints a figure and its bound; `scripts/verify` reads the line, and nothing fails here.
package func measure(
    _ what: String, _ value: Double, atMost bound: Double, unit: String, test: String = #function,
    file: String = #fileID
) {
    printFigure(what, value, "<=", bound, unit, test, file)
}

package func measure(
    _ what: String, _ value: Double, atLeast bound: Double, unit: String, test: String = #function,
    file: String = #fileID
) {
    printFigure(what, value, ">=", bound, unit, test, file)
}

package func measure(
    _ what: String, _ value: Duration, atMost bound: Duration, test: String = #function, file: String = #fileID
) {
    measure(what, value / .milliseconds(1), atMost: bound / .milliseconds(1), unit: "ms", test: test, file: file)
}

private func printFigure(
    _ what: String, _ value: Double, _ relation: String, _ bound: Double, _ unit: String, _ test: String, _ file: String
) {
    let suite = file.split(separator: "/").last?.split(separator: ".").first ?? ""
    let name = test.split(separator: "(").first ?? ""
    print("measured \(suite).\(name): \(what): \(rounded(value)) \(unit) \(relation) \(rounded(bound))")
}

private func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
