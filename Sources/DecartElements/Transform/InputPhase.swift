// Decides when a run's session begins with its input, and when the input has ended. A value: it knows no pad or session.

package struct InputPhase: Sendable {
    /// The session starts with the first caps of the input or, if it is encoded, with its first keyframe, whose format it
    /// negotiates.
    package private(set) var awaitsVideo: Bool
    /// The first EOS has come.
    package private(set) var isDraining = false
    /// It came by `gst_element_send_event`: for all streams, until a flush.
    package private(set) var isEndedByApplication = false
    package private(set) var hasWarnedOfAudio = false

    package init(awaitsVideo: Bool) { self.awaitsVideo = awaitsVideo }

    /// Raw video comes, or none is needed any more.
    /// - Returns: true if the session begins by it. After EOS, no video leaves any more.
    package mutating func videoCame() -> Bool {
        guard awaitsVideo, !isDraining else { return false }
        awaitsVideo = false
        return true
    }

    /// Encoded video comes, or the application has decided about the session.
    /// - Returns: true if the session waited for it.
    @discardableResult package mutating func stopAwaiting() -> Bool { exchange(&awaitsVideo, with: false) }

    /// Audio comes, and no video.
    /// - Returns: true once.
    package mutating func audioCameAlone() -> Bool {
        guard awaitsVideo, !hasWarnedOfAudio else { return false }
        hasWarnedOfAudio = true
        return true
    }

    /// - Returns: false if the input had ended before.
    package mutating func end(byApplication: Bool) -> Bool {
        if byApplication { isEndedByApplication = true }
        return !exchange(&isDraining, with: true)
    }

    /// A flush that ends undoes EOS, as for every pad, and so does another stream, unless the EOS is the application's.
    /// - Returns: true if the input had ended.
    package mutating func resume(afterFlush: Bool) -> Bool {
        if afterFlush { isEndedByApplication = false }
        guard isDraining, !isEndedByApplication else { return false }
        isDraining = false
        return true
    }
}
