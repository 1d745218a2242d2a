/// Collects values from callbacks and lets a test wait for one, with a time limit and without sleeping.
package final class EventLog<Element: Sendable>: Sendable {
    private let log = Observed<[Element]>([])

    package init() {}

    package var elements: [Element] { log.value }

    package func append(_ element: Element) { log.change { $0.append(element) } }

    /// Returns the first matching element, past or future; nil after `limit`.
    package func first(
        within limit: Duration = .seconds(20), where matches: @escaping @Sendable (Element) -> Bool
    ) async -> Element? {
        await log.wait(limit) { $0.contains(where: matches) } ? elements.first(where: matches) : nil
    }

    /// Returns true as soon as there are `count` elements; false after `limit`.
    package func reaches(count: Int, within limit: Duration = .seconds(20)) async -> Bool {
        await log.wait(limit) { $0.count >= count }
    }
}
