// The RTP sessions of a connection: one for video and, if negotiated, one for audio, which can be added while video runs.
// Streams of the same CNAME are kept in sync.
import EventLoopThreads
import GStreamerKit
import ICE
import RTP
internal import Synchronization

// @unchecked: `synchronizer` and `receiving` belong to the network thread; the rest is constant or locked.
final class RTPSessions: @unchecked Sendable {
    let bin = Bin()
    let video: RTPSession
    private struct Audio: Sendable {
        var session: RTPSession?
        var isOver = false
    }
    private let audioSlot = Mutex(Audio())
    private let network: NetworkThread
    private var synchronizer = StreamSynchronizer()
    private var receiving: Set<MediaKind> = []

    /// - Parameter pushesVideo: received video is pushed on the network thread.
    init(network: NetworkThread, pushesVideo: Bool) {
        self.network = network
        video = RTPSession(.video, prefix: "", bin: bin, network: network, hasOutputThread: !pushesVideo)
        bin.suppressSourceAndSinkFlags()
    }

    /// nil before `addAudio`.
    var audio: RTPSession? { audioSlot.withLock(\.session) }

    /// Adds the audio session and its pads, `audio_rtp_sink` and `audio_rtp_src`, also while video runs.
    func addAudio() throws(GStreamerError) -> RTPSession {
        let made = audioSlot.withLock { slot -> RTPSession? in
            guard !slot.isOver, slot.session == nil else { return nil }
            slot.session = RTPSession(.audio, prefix: "audio_", bin: bin, network: network)
            return slot.session
        }
        guard let made else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        return made
    }

    subscript(kind: MediaKind) -> RTPSession? { kind == .video ? video : audio }

    // MARK: Network thread

    /// Begins to send reports of the sessions that are set up.
    func startReports() {
        video.startReports()
        audio?.startReports()
    }

    /// Sets the kinds that the remote peer may send. The delay of another one ends with it.
    func setReceiving(_ kinds: Set<MediaKind>) {
        for kind in receiving.subtracting(kinds) { apply(synchronizer.forget(kind)) }
        receiving = kinds
    }

    /// Takes a compound packet, which may concern both sessions.
    func received(_ compound: RTCPCompound, now: Duration) {
        for kind in MediaKind.allCases {
            guard let session = self[kind], let time = session.received(compound, now: now), receiving.contains(kind)
            else { continue }
            synchronizer.reported(kind, name: time.cname, ntp: time.ntp, running: time.running, now: now)
        }
    }

    private func apply(_ delays: [MediaKind: Int64]?) {
        for (kind, delay) in delays ?? [:] { self[kind]?.setDelay(delay) }
    }

    /// Call after packets that arrived together.
    func flush() {
        video.flush()
        audio?.flush()
        apply(synchronizer.follow(now: MonotonicTime.now))
    }

    /// Shows another remote stream from now on.
    func select(_ ssrc: UInt32, _ kind: MediaKind) {
        apply(synchronizer.forget(kind))
        self[kind]?.select(ssrc)
    }

    /// Audio of another payload type follows.
    func changeAudioType(to type: Int) {
        if audio?.changeType(to: type) == true { apply(synchronizer.forget(.audio)) }
    }

    // MARK: End

    /// Stops packets in both directions. The owner then sets the bin to NULL.
    func stop() {
        let audio = audioSlot.withLock { slot in
            slot.isOver = true
            return slot.session
        }
        video.stop()
        audio?.stop()
    }

    /// Call after the bin has reached NULL.
    func dismantle() {
        video.dismantle()
        audio?.dismantle()
    }
}
