/// Judges once a second whether the frames of `resolution=1080p` arrive.
package struct ResolutionWatch: Sendable {
    private var seconds = 0
    /// Seconds of smaller frames before it reports them: a sender may begin with smaller ones.
    package static let limit = 10

    package init() {}

    /// - Parameter size: that of the received frames; nil: none have arrived.
    /// - Returns: a sentence for a warning, once; none after frames of that resolution have arrived.
    package mutating func add(_ size: (width: Int, height: Int)?) -> String? {
        guard let size, seconds < Self.limit else { return nil }
        guard min(size.width, size.height) < 1080 else {
            seconds = Self.limit
            return nil
        }
        seconds += 1
        guard seconds == Self.limit else { return nil }
        return "resolution=1080p is set, but the service returns \(size.width)x\(size.height), which is scaled up. "
            + "The model may not offer 1080p, or the network is too slow for it."
    }
}
