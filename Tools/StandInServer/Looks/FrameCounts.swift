/// The frames of a session, or of one of its media paths.
package struct FrameCounts: Sendable, Equatable {
    package var painted = 0
    /// Painted frames left untransformed because no state was set.
    package var raw = 0
    /// Frames passed to the encoder, to go back to the client; fewer than painted if some were dropped.
    package var sent = 0

    static func + (left: FrameCounts, right: FrameCounts) -> FrameCounts {
        FrameCounts(painted: left.painted + right.painted, raw: left.raw + right.raw, sent: left.sent + right.sent)
    }
}

struct LookCounts: Sendable, Equatable {
    private(set) var look: Look?
    /// Frames sent before the present look, by style.
    private var sentByEarlierLooks: [String: Int] = [:]
    /// All frames sent when the present look began.
    private var sentBeforeLook = 0

    func sentWithLook(_ sent: Int) -> Int { look == nil ? 0 : max(0, sent - sentBeforeLook) }

    func sentByStyle(_ sent: Int) -> [String: Int] {
        guard let look else { return [:] }
        return sentByEarlierLooks.merging([look.style.name: sentWithLook(sent)], uniquingKeysWith: +)
    }

    mutating func begin(_ look: Look, sent: Int) {
        (sentByEarlierLooks, sentBeforeLook) = (sentByStyle(sent), sent)
        self.look = look
    }
}
