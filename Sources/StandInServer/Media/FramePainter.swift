import DecartProtocol
import Synchronization

/// The one thing that the control channel and the media of a session share: which look is on, and what has been painted.
///
/// The control channel sets the look at any time from its event loop; the streaming thread paints. Neither waits for the
/// other longer than it takes to copy the look.
package final class FramePainter: Sendable {
    /// Nil until a state is set: pictures then go back raw, so that a client which offers too early shows its camera.
    private let look: Mutex<Look?>
    private let carriesLatencyMarker: Bool
    /// How long a model thinks before a picture goes back.
    package let delay: Duration
    private let painted = Atomic<Int>(0)
    private let raw = Atomic<Int>(0)
    private let sent = Atomic<Int>(0)
    private let paused = Atomic(false)
    private let onFrame: @Sendable (Int) -> Void
    /// Sees each picture that goes back.
    let audience: Audience

    /// - Parameters:
    ///   - carriesLatencyMarker: read the number in each picture and stamp it again over the painted one.
    ///   - onFrame: called after every picture with their number so far, on the thread that paints.
    package init(
        look: Look?, carriesLatencyMarker: Bool, delay: Duration = .zero, audience: Audience = Audience(),
        onFrame: @escaping @Sendable (Int) -> Void
    ) {
        self.delay = delay
        self.audience = audience
        self.look = Mutex(look)
        self.carriesLatencyMarker = carriesLatencyMarker
        self.onFrame = onFrame
    }

    /// Pictures painted so far, raw ones included.
    package var frameCount: Int { painted.load(ordering: .relaxed) }
    /// Pictures that went through before there was a look.
    package var rawFrameCount: Int { raw.load(ordering: .relaxed) }

    /// Pictures given to the encoder; fewer than painted where some were held back.
    package var sentCount: Int { sent.load(ordering: .relaxed) }

    /// No generation runs: frames that come are dropped.
    var isPaused: Bool { paused.load(ordering: .relaxed) }

    func setPaused(_ isPaused: Bool) { paused.store(isPaused, ordering: .relaxed) }

    func noteSent() {
        sent.wrappingAdd(1, ordering: .relaxed)
    }

    package func setLook(_ look: Look) {
        self.look.withLock { $0 = look }
    }

    /// Changes the picture in place.
    package func paint(_ frame: I420Frame) {
        // A picture without a readable number gets none: an invented one would look like a delivered frame.
        let number = carriesLatencyMarker ? LatencyMarker.read(from: frame.luma) : nil
        if let look = look.withLock({ $0 }) {
            look.apply(to: frame)
        } else {
            raw.wrappingAdd(1, ordering: .relaxed)
        }
        if let number { LatencyMarker.stamp(number, onto: frame.luma) }
        onFrame(painted.wrappingAdd(1, ordering: .relaxed).newValue)
    }
}
