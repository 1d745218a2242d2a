import Synchronization

/// The one thing that the control channel and the media of a session share: which look is on, and what has been painted.
///
/// The control channel sets the look at any time from its event loop; the streaming thread paints. Neither waits for the
/// other longer than it takes to copy the look.
package final class FramePainter: Sendable {
    /// Nil until a state is set: pictures then go back raw, so that a client which offers too early shows its camera.
    private let look = Mutex<Look?>(nil)
    private let carriesLatencyMarker: Bool
    private let painted = Atomic<Int>(0)
    private let onFirstFrame: @Sendable () -> Void

    /// - Parameters:
    ///   - carriesLatencyMarker: read the number in each picture and stamp it again over the painted one.
    ///   - onFirstFrame: called once, on the thread that paints.
    package init(carriesLatencyMarker: Bool, onFirstFrame: @escaping @Sendable () -> Void) {
        self.carriesLatencyMarker = carriesLatencyMarker
        self.onFirstFrame = onFirstFrame
    }

    /// Pictures painted so far, raw ones included.
    package var frameCount: Int { painted.load(ordering: .relaxed) }

    package func setLook(_ look: Look) {
        self.look.withLock { $0 = look }
    }

    /// Changes the picture in place.
    package func paint(_ frame: I420Frame) {
        // A picture without a readable number gets none: an invented one would look like a delivered frame.
        let number = carriesLatencyMarker ? LatencyMarker.read(from: frame.luma) : nil
        (look.withLock { $0 } ?? .untouched).apply(to: frame)
        if let number { LatencyMarker.stamp(number, onto: frame.luma) }
        if painted.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { onFirstFrame() }
    }
}
