// The viewers of one session. Each painted frame and each audio packet goes to all of them, and all are notified of its
// end. A slow or lost viewer delays no other viewer.
import GStreamerKit
import RTP
import Synchronization
import WebRTCTransport

package final class Viewers: Sendable {
    /// Encoded frames of the session's client, which its viewers get without transcoding.
    struct EncodedSource: Sendable {
        let codec: VideoCodec
        let requestKeyframe: @Sendable () -> Void
    }

    private struct State {
        var branches: [ObjectIdentifier: ViewerBranch] = [:]
        var hasAudio = false
        var encoded: EncodedSource?
        /// Connections of the page are no viewers of the service.
        var connections: [ObjectIdentifier: (connection: ClientConnection, isPage: Bool)] = [:]
    }
    private let state = Mutex(State())
    /// Receives the frames before their transformation.
    let input: Viewers?

    package init() { input = Viewers(input: nil) }

    private init(input: Viewers?) { self.input = input }

    // MARK: Frames (the painting thread)

    func show(_ frame: Buffer, _ caps: Caps) { push(frame, caps, .video) }

    /// Called on the thread of the session's audio.
    func play(_ packet: Buffer, _ caps: Caps) { push(packet, caps, .audio) }

    private func push(_ buffer: Buffer, _ caps: Caps, _ kind: MediaKind) {
        for branch in state.withLock({ Array($0.branches.values) }) where branch.kind == kind {
            if let copy = buffer.copyOfMetadata() { branch.push(copy, caps) }
        }
    }

    /// Set if the frames are encoded; `show` gets them with their caps.
    var encoded: EncodedSource? {
        get { state.withLock(\.encoded) }
        set { state.withLock { $0.encoded = newValue } }
    }

    /// The session's client sends audio, which the inference server publishes too.
    var hasAudio: Bool { state.withLock(\.hasAudio) }

    func set(hasAudio: Bool) -> Bool {
        state.withLock { state in
            defer { state.hasAudio = hasAudio }
            return state.hasAudio != hasAudio
        }
    }

    func add(_ branch: ViewerBranch) { state.withLock { $0.branches[ObjectIdentifier(branch)] = branch } }
    func remove(_ branch: ViewerBranch) { state.withLock { $0.branches[ObjectIdentifier(branch)] = nil } }

    // MARK: Connections

    func enter(_ connection: ClientConnection, isPage: Bool = false) {
        state.withLock { $0.connections[ObjectIdentifier(connection)] = (connection, isPage) }
    }
    var pageCount: Int { state.withLock { $0.connections.values.count { $0.isPage } } }
    func leave(_ connection: ClientConnection) {
        state.withLock { $0.connections[ObjectIdentifier(connection)] = nil }
    }

    /// Ends the viewers' connections. Viewers that connect later watch the session's next media, if any.
    func end() {
        for (connection, _) in state.withLock({ Array($0.connections.values) }) { connection.notify(SessionEnded()) }
    }
}

/// The viewers of all current sessions.
final class ViewerBoard: Sendable {
    private let bySession = Mutex<[String: Viewers]>([:])

    func add(_ viewers: Viewers, of sessionID: String) { bySession.withLock { $0[sessionID] = viewers } }

    func remove(_ sessionID: String) {
        let viewers = bySession.withLock { $0.removeValue(forKey: sessionID) }
        viewers?.end()
    }

    func viewers(of sessionID: String) -> Viewers? { bySession.withLock { $0[sessionID] } }
}
