/// Number of a media path: unique in the process, and higher for a newer path. A value.
package struct PathID: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral {
    private let number: Int

    package init(_ number: Int) { self.number = number }
    package init(integerLiteral number: Int) { self.number = number }

    /// The raw delivery for `fallback=passthrough`, which is no media path.
    package static let raw = PathID(-1)
    /// Lower than the number of each media path: stands for none before the first one.
    package static let lowest = PathID(-1)

    package static func < (one: PathID, other: PathID) -> Bool { one.number < other.number }
}
