// Decides what of our media a path sends. A value: it knows no gate, connection or thread.
package import RTP

package struct SendState: Sendable {
    package enum Event: Sendable {
        /// The connection is up.
        case connected
        /// The encoder takes frames.
        case encoderReady
        /// Our video is published or withdrawn.
        case published(Bool)
        /// Nothing of these kinds is sent.
        case muted(Set<MediaKind>)
        /// A participant receives our video.
        case wanted(Bool)
        /// The path ends; the connection may be up only afterwards.
        case stopped
    }

    private var isOpen = false
    private var hasEncoder = false
    private var isPublished = true
    package private(set) var muted: Set<MediaKind> = []
    package private(set) var isWanted = true
    package private(set) var isStopped = false

    package init() {}

    /// Frames pass once the connection is up and the encoder takes them: on a fast network the connection may be up
    /// first, and a frame would be lost.
    package var sendsVideo: Bool { isShown && hasEncoder && !muted.contains(.video) }
    package var sendsAudio: Bool { isOpen && !muted.contains(.audio) }
    /// The peer has our video track.
    package var isShown: Bool { isOpen && isPublished }

    package mutating func handle(_ event: Event) {
        switch event {
        case .connected: isOpen = !isStopped
        case .encoderReady: hasEncoder = true
        case .published(let isPublished): self.isPublished = isPublished
        case .muted(let muted): self.muted = muted
        case .wanted(let isWanted): self.isWanted = isWanted
        case .stopped: (isStopped, isOpen, isPublished) = (true, false, false)
        }
    }
}
