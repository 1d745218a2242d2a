package import RTP

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

    private init(sends: Bool, receives: Bool) {
        switch (sends, receives) {
        case (true, true): self = .sendrecv
        case (true, false): self = .sendonly
        case (false, true): self = .recvonly
        case (false, false): self = .inactive
        }
    }

    /// The directions that both have.
    func limited(to other: MediaDirection) -> MediaDirection {
        MediaDirection(sends: sends && other.sends, receives: receives && other.receives)
    }

    /// The directions that at least one has.
    func united(with other: MediaDirection) -> MediaDirection {
        MediaDirection(sends: sends || other.sends, receives: receives || other.receives)
    }
}

/// Media of our descriptions, and the upper limit of our answers. nil: none is offered or accepted; if there was one
/// before, its m-line stays, `inactive`.
struct DesiredDirections: Sendable, Equatable {
    var video: MediaDirection?
    var audio: MediaDirection?

    subscript(kind: MediaKind) -> MediaDirection? { kind == .video ? video : audio }
}

/// Media that a session should carry: our video, and audio, which is received only while ours is wanted.
package struct DesiredMedia: Sendable, Equatable {
    package var video: Bool
    package var audio: Bool

    package init(video: Bool = true, audio: Bool = false) { (self.video, self.audio) = (video, audio) }

    package subscript(kind: MediaKind) -> Bool { kind == .video ? video : audio }
}
