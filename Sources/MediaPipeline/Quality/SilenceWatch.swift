/// Notices that a stream of frames has stopped, from their count once a second. A stream that is slow by itself, such as
/// a slideshow, may take three times its longest interval. A value.
package struct SilenceWatch: Sendable {
    private static let shortest = 5
    private var last: UInt64?
    /// Seconds since the last frame.
    private var silent = 0
    /// Seconds from one frame to the next, of the latest ones.
    private var gaps: [Int] = []
    private var limit = SilenceWatch.shortest

    package init() {}

    package var isSilent: Bool { silent >= limit }

    /// - Parameters:
    ///   - count: frames since any fixed time.
    ///   - interval: nominal time from one frame to the next; nil: unknown.
    ///   - isDue: false while no frames are to be expected.
    /// - Returns: true once, when the stream has stopped.
    package mutating func add(count: UInt64, interval: Duration? = nil, isDue: Bool = true) -> Bool {
        defer { last = count }
        guard isDue, let last else {
            silent = 0
            return false
        }
        guard count == last else {
            gaps = gaps.suffix(2) + [silent + 1]
            silent = 0
            return false
        }
        silent += 1
        let nominal = interval.map { Int(min(($0 / .seconds(1)).rounded(.up), 3600)) } ?? 0
        limit = max(Self.shortest, 3 * max(nominal, gaps.max() ?? 0))
        return silent == limit
    }
}
