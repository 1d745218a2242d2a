/// Decides when an encoded stream lacks a keyframe, with which a later viewer of a server could begin. A value, driven by the
/// stream's frames.
package struct KeyframeInterval: Sendable {
    /// When the last keyframe came, or was requested.
    private var last: Duration?

    package init() {}

    /// - Parameter interval: zero: keyframes come as they are.
    /// - Returns: true if a keyframe is to be requested.
    package mutating func add(isKeyframe: Bool, interval: Duration, now: Duration) -> Bool {
        if isKeyframe {
            last = now
            return false
        }
        // Without a first keyframe the receiver requests one.
        guard interval > .zero, let last, now - last >= interval else { return false }
        // A request that is lost is repeated.
        self.last = now
        return true
    }
}
