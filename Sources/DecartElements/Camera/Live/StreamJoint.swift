// Joins the streams of the live views, one after the other, to one pad that stays. It knows pads; it must not know
// connections.
package import GStreamerKit
import Synchronization

package final class StreamJoint: Sendable {
    /// A pad without an element, the target of a ghost pad. The view's elements never see a flow error of downstream.
    package let source: Pad
    private let frames = Atomic<UInt64>(0)
    /// The pad of the view that delivers, which takes keyframe requests back to the camera.
    private let entry = Mutex<Pad?>(nil)

    /// ns; covers jitter and the decoder. A frame that waits for a retransmission is later.
    private static let latency: ClockTime = 100_000_000

    package init(name: String) {
        source = Pad(name: name, direction: .source)
        source.setEventFunction { [weak self] event in
            guard event.isForceKeyUnit else { return .handled(true) }
            // Pushed without the lock: the event reaches the camera's connection.
            let entry = self?.entry.withLock { $0 }
            return .handled(entry?.push(event) ?? false)
        }
        source.setQueryFunction { query in
            guard query.kind == .latency else { return .forward }
            query.answerLatency(live: true, minimum: Self.latency, maximum: nil)
            return .answered
        }
        source.setActive(true)
    }

    /// Frames of all views.
    package var count: UInt64 { frames.load(ordering: .relaxed) }

    /// Makes the pad for the frames of a view. The owner deactivates it.
    /// - Parameter onFirst: called on the view's streaming thread, before the first frame is forwarded.
    package func makeEntry(onFirst: @escaping @Sendable () -> Void) -> Pad {
        let entry = Pad(name: "received", direction: .sink)
        let hasDelivered = Atomic(false)
        entry.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            if !hasDelivered.exchange(true, ordering: .relaxed) { onFirst() }
            self.frames.wrappingAdd(1, ordering: .relaxed)
            _ = self.source.push(buffer)
            return .ok
        }
        entry.setEventFunction { [weak self] event in
            switch event.kind {
            case .streamStart, .caps, .segment, .tag, .gap: self?.source.push(event)
            // The end of a view is not that of the stream.
            default: break
            }
            return .handled(true)
        }
        entry.setActive(true)
        _ = self.entry.withLock { exchange(&$0, with: entry) }
        return entry
    }
}
