import GStreamerKit
import RTP
import WebRTCTransport

/// Passes buffers of one kind from the session's pipeline into the viewer's.
// @unchecked: the pad has its own lock; the rest belongs to the thread of the session's frames or audio.
final class ViewerBranch: @unchecked Sendable {
    let kind: MediaKind
    private let element: Element
    private let pad: Pad
    private let requestKeyframe: (@Sendable () -> Void)?
    private let stamp: (_ buffer: Buffer, _ now: ClockTime) -> Bool

    /// - Parameters:
    ///   - requestKeyframe: called when the viewer requests a keyframe.
    ///   - stamp: gives a buffer its time in the viewer's pipeline, whose running time is `now`; false drops the buffer.
    private init(
        _ kind: MediaKind, into element: Element, requestKeyframe: (@Sendable () -> Void)? = nil,
        stamp: @escaping (_ buffer: Buffer, _ now: ClockTime) -> Bool
    ) {
        (self.kind, self.element, self.requestKeyframe, self.stamp) = (kind, element, requestKeyframe, stamp)
        pad = Pad(name: "viewer_\(kind)", direction: .source)
    }

    /// Frames of the painter, into the queue in front of an encoder.
    static func frames(into queue: Element, takesTrailers: Bool) -> ViewerBranch {
        ViewerBranch(.video, into: queue) { frame, now in
            if !takesTrailers { frame[.trailer] = nil }
            frame.pts = now
            return true
        }
    }

    /// Encoded frames, from a keyframe on.
    static func encoded(_ source: Viewers.EncodedSource, into sender: Element) -> ViewerBranch {
        var wait = KeyframeWait(isWaiting: true)
        return ViewerBranch(.video, into: sender, requestKeyframe: source.requestKeyframe) { frame, now in
            let step = wait.add(isKeyframe: !frame.isDeltaUnit)
            if step == .dropAndRequest { source.requestKeyframe() }
            frame.pts = now
            return step == .pass
        }
    }

    /// Opus packets. The first one gets the viewer's running time, and the others keep their distance to it, because a
    /// viewer's jitter buffer would hear the difference.
    static func audio(into payloader: Element) -> ViewerBranch {
        var shift: UInt64?
        return ViewerBranch(.audio, into: payloader) { packet, now in
            guard let time = packet.pts else { return false }
            let near = shift.flatMap { isNear(time &+ $0, now) ? $0 : nil } ?? now &- time
            shift = near
            packet.pts = time &+ near
            return true
        }
    }

    /// ns; a larger distance is a gap in the session's audio.
    private static let tolerance: UInt64 = 200_000_000

    private static func isNear(_ one: UInt64, _ other: UInt64) -> Bool {
        one > other ? one - other < tolerance : other - one < tolerance
    }

    /// Call after the element is in the pipeline: adding an element to a bin unlinks it.
    func open() throws {
        if let requestKeyframe {
            pad.setEventFunction { event in
                if event.isForceKeyUnit { requestKeyframe() }
                return .handled(true)
            }
        }
        pad.setActive(true)
        try pad.link(element.pad("sink"))
    }

    func push(_ buffer: Buffer, _ caps: Caps) {
        guard let now = element.currentRunningTime, stamp(buffer, now) else { return }
        buffer.dts = nil
        // The sticky events that a buffer of these caps needs.
        let before = pad.currentCaps
        if before == nil { pad.push(Event.streamStart(id: "standin/viewer-\(kind)", groupID: Event.nextGroupID())) }
        if before != caps { pad.push(Event.caps(caps)) }
        if before == nil { pad.push(Event.timeSegment()) }
        _ = pad.push(buffer)
    }

    func close() { pad.setActive(false) }
}
