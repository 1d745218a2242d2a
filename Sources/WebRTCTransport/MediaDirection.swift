package enum MediaDirection: String, Sendable {
    case sendrecv, sendonly, recvonly, inactive
    package var sends: Bool { self == .sendrecv || self == .sendonly }
    package var receives: Bool { self == .sendrecv || self == .recvonly }
    package var reversed: MediaDirection {
        switch self {
        case .sendonly: .recvonly
        case .recvonly: .sendonly
        default: self
        }
    }

    /// No more than the other does.
    func limited(to other: MediaDirection) -> MediaDirection {
        switch (sends && other.sends, receives && other.receives) {
        case (true, true): .sendrecv
        case (true, false): .sendonly
        case (false, true): .recvonly
        case (false, false): .inactive
        }
    }
}

/// What an m-line carries; each has an RTP session of its own, whatever the number of its m-lines.
package enum MediaKind: String, Sendable, CaseIterable { case video, audio }

/// What our descriptions hold, and the most that our answers take. nil: none is offered or taken; where there was one
/// before, its m-line stays, `inactive`.
struct WantedMedia: Sendable, Equatable {
    var video: MediaDirection?
    var audio: MediaDirection?

    subscript(kind: MediaKind) -> MediaDirection? { kind == .video ? video : audio }
}

/// What a session is to carry: our picture, and sound, which is listened to only while ours is wanted.
package struct MediaWish: Sendable, Equatable {
    package var video: Bool
    package var audio: Bool

    package init(video: Bool = true, audio: Bool = false) { (self.video, self.audio) = (video, audio) }

    package subscript(kind: MediaKind) -> Bool { kind == .video ? video : audio }
}
