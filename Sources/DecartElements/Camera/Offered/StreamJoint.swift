// Joins the decoded streams of the live views, one after the other, to one pad that stays. It knows pads; it must not
// know connections.
import GStreamerKit
import Synchronization

final class StreamJoint: Sendable {
    /// A pad without an element, the target of a ghost pad. The view's decoder never sees a flow error of downstream.
    let source: Pad
    private let frames = Atomic<UInt64>(0)

    /// - Parameter latency: latency of the views, ns.
    init(name: String, latency: ClockTime) {
        source = Pad(name: name, direction: .source)
        source.setEventFunction { _ in .handled(true) }
        source.setQueryFunction { query in
            guard query.kind == .latency else { return .forward }
            query.answerLatency(live: true, minimum: latency, maximum: nil)
            return .answered
        }
        source.setActive(true)
    }

    /// Frames of all views.
    var count: UInt64 { frames.load(ordering: .relaxed) }

    /// Makes the pad for the decoder of a view. The owner deactivates it.
    /// - Parameter onFirst: called on the decoder's thread, before the first frame goes on.
    func makeEntry(onFirst: @escaping @Sendable () -> Void) -> Pad {
        let entry = Pad(name: "decoded", direction: .sink)
        var isFirst = true
        entry.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            if isFirst { onFirst() }
            isFirst = false
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
        return entry
    }
}
