// A pair of bare pads in front of a decoder. It discards all flow errors from downstream, so that the source of the
// packets continues. The receiver may be added and removed while packets pass.
import RTP
package import GStreamerKit
internal import Synchronization

// @unchecked: pads do their own locking.
package final class ErrorIsolator: @unchecked Sendable {
    private enum Item: Sendable {
        case buffer(Buffer)
        case event(Event)
    }
    /// What waits for a receiver of another format.
    private struct Held: Sendable {
        /// nil: nothing waits, and packets pass.
        var items: [Item]?
        var isReleased = false
        var hasDropped = false
        /// A receiver that never comes must not fill the memory.
        static let maximum = 4096

        mutating func append(_ item: Item) {
            if (items?.count ?? 0) >= Self.maximum {
                // What a receiver needs to begin; losses of packets are announced by events, too.
                items = items?.filter { if case .event(let event) = $0 { event.isSticky } else { false } }
                hasDropped = true
            }
            items?.append(item)
        }
    }
    private let outside = Pad(name: "packets_in", direction: .sink)
    let inside = Pad(name: "packets_out", direction: .source)
    private let held = Mutex(Held())
    /// Time for which the receiver has kept the thread of the packets.
    package let busy = BusyTime()

    /// - Parameter onFormat: called with the caps of the packets that follow, on their thread. It may call `hold`.
    package init(onFormat: @escaping @Sendable (Caps, ErrorIsolator) -> Void = { _, _ in }) {
        outside.setChainFunction { [weak self] buffer in
            self?.busy.measure { self?.pass(.buffer(buffer)) }
            return .ok
        }
        outside.setEventFunction { [weak self] event in
            guard let self else { return .handled(true) }
            if let caps = event.caps { onFormat(caps, self) }
            pass(.event(event))
            return .handled(true)
        }
        inside.setEventFunction { [own = outside.unowned] event in .handled(own.push(event)) }
        outside.setActive(true)
        inside.setActive(true)
    }

    private func pass(_ item: Item) {
        let (due, hasDropped) = held.withLock { held -> ([Item], Bool) in
            guard held.items != nil else { return ([item], false) }
            held.append(item)
            guard held.isReleased else { return ([], false) }
            defer { held = Held() }
            return (held.items ?? [], held.hasDropped)
        }
        for item in due {
            switch item {
            case .buffer(let buffer): _ = inside.pushIfLinked(buffer)
            case .event(let event): inside.push(event)
            }
        }
        if hasDropped { push(upstream: Event.forceKeyUnitUpstream()) }
    }

    /// Lets packets wait for `release`, so that none is lost while another receiver is made: a stream in another codec begins
    /// with the only keyframe. Drops those that wait already, because their format has ended. On the thread of the packets.
    package func hold() { held.withLock { $0 = Held(items: []) } }

    /// Lets packets pass, without those that wait. On the thread of the packets.
    package func abandon() { held.withLock { $0 = Held() } }

    /// Lets the packets that wait through, with the next one, on their thread.
    package func release() { held.withLock { $0.isReleased = true } }

    /// Links the source of the packets.
    package func open(to source: Pad) throws(GStreamerError) { try source.link(outside) }

    /// Links the receiver of the packets.
    package func link(to sink: Pad) throws(GStreamerError) { try inside.link(sink) }
    package func unlink() { if let sink = inside.peer { inside.unlink(sink) } }

    /// Pushes an event towards the remote peer.
    package func push(upstream event: Event) { outside.push(event) }

    /// Call before the surrounding bin is taken down.
    package func close() {
        outside.setActive(false)
        inside.setActive(false)
        held.withLock { $0 = Held() }
    }
}

extension VideoCodec {
    /// The codec of packets with these caps; nil: none of ours.
    package init?(packets caps: Caps) {
        let name = caps.first?.string("encoding-name")
        guard let codec = Self.allCases.first(where: { $0.encodingName == name }) else { return nil }
        self = codec
    }
}
