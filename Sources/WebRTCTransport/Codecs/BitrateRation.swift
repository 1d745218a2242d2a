/// Rations the changes of an encoder that sends a keyframe at each: the target may change ten times a second. A value.
package struct BitrateRation: Sendable {
    package private(set) var applied: Int?
    private var appliedAt: Duration = .zero
    package init() {}

    /// A lower target relieves the network, so it waits less than a higher one.
    private static let shortest: Duration = .milliseconds(500)
    /// Of a much higher target, as in the first seconds.
    private static let short: Duration = .seconds(1)
    private static let longest: Duration = .seconds(3)

    /// The bitrate to set now, or nil to keep the last one for now.
    package mutating func next(_ target: Int, now: Duration) -> Int? {
        if let applied {
            let age = now - appliedAt
            // A tenth lower soon; a twentieth in either direction later.
            let isUrgent = target < applied - applied / 10 && age >= Self.shortest
            let isDue = abs(target - applied) > applied / 20 && age >= Self.longest
            let isMuchHigher = target > applied + applied / 2 && age >= Self.short
            guard isUrgent || isMuchHigher || isDue else { return nil }
        }
        (applied, appliedAt) = (target, now)
        return target
    }
}
