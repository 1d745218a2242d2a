import DecartProtocol
import Synchronization

/// State that a session's control channel shares with its media: the current look, and the counts of frames.
///
/// The control channel sets the look at any time from its event loop; the streaming thread paints. Each holds the
/// lock only while it copies the look.
package final class FramePainter: Sendable {
    /// Nil until a state is set: frames then go back untransformed, so that a client that offers too early shows its
    /// camera.
    private let look: Mutex<Look?>
    private let carriesLatencyMarker: Bool
    /// Frames go back with 1080 pixels on the shorter side.
    let isFullHD: Bool
    /// Simulated inference time of a frame.
    package let delay: Duration
    private let counted = Mutex(FrameCounts())
    private let paused = Atomic(false)
    private let muted = Atomic(false)
    private let awaitsFrame = Atomic(true)
    private let onFrame: @Sendable (_ starts: Bool) -> Void
    /// Receives each frame that goes back.
    let viewers: Viewers
    private let measured = Mutex(MediaStatistics())

    /// - Parameters:
    ///   - carriesLatencyMarker: Reads the marker's number in each frame and stamps it onto the painted frame.
    ///   - onFrame: Called after each frame on the painting thread; `starts` is true for the first frame, and for the
    ///     first one after `awaitFrame`.
    package init(
        look: Look?, carriesLatencyMarker: Bool, isFullHD: Bool = false, delay: Duration = .zero,
        viewers: Viewers = Viewers(), onFrame: @escaping @Sendable (_ starts: Bool) -> Void
    ) {
        self.look = Mutex(look)
        (self.carriesLatencyMarker, self.isFullHD, self.delay) = (carriesLatencyMarker, isFullHD, delay)
        (self.viewers, self.onFrame) = (viewers, onFrame)
    }

    package var statistics: MediaStatistics { measured.withLock { $0 } }

    func measure(_ body: (inout MediaStatistics) -> Void) { measured.withLock { body(&$0) } }

    package var counts: FrameCounts { counted.withLock { $0 } }

    /// No generation runs, or the room forwards nothing of a muted track: incoming frames are dropped.
    var isPaused: Bool { paused.load(ordering: .relaxed) || muted.load(ordering: .relaxed) }

    func setPaused(_ isPaused: Bool) { paused.store(isPaused, ordering: .relaxed) }

    /// No frames arrive any more: the next one starts a generation.
    func awaitFrame() { awaitsFrame.store(true, ordering: .relaxed) }

    /// LiveKit's SDKs send black frames on a muted track, and its servers forward none of them.
    func setMuted(_ isMuted: Bool) { muted.store(isMuted, ordering: .relaxed) }

    package func noteSent() { counted.withLock { $0.sent += 1 } }

    package func setLook(_ look: Look) {
        self.look.withLock { $0 = look }
    }

    /// Counts a frame, painted or encoded; the latter goes back as it is.
    func pass() {
        counted.withLock { $0.painted += 1 }
        onFrame(awaitsFrame.exchange(false, ordering: .relaxed))
    }

    package func paint(_ frame: I420Frame) {
        // A frame without a readable marker gets none: an invented number would count as a delivered frame.
        let number = carriesLatencyMarker ? LatencyMarker.find(in: frame.luma)?.number : nil
        let look = look.withLock { $0 }
        look?.apply(to: frame)
        if let number { LatencyMarker.stamp(number, onto: frame.luma) }
        if look == nil { counted.withLock { $0.raw += 1 } }
        pass()
    }
}
