// A pair of bare pads in front of a decoder. It discards all flow errors from downstream, so that the source of the
// packets continues. The receiver may be added and removed while packets pass.
package import GStreamerKit

// @unchecked: pads do their own locking.
package final class ErrorIsolator: @unchecked Sendable {
    private let outside = Pad(name: "packets_in", direction: .sink)
    let inside = Pad(name: "packets_out", direction: .source)
    /// Time for which the receiver has kept the thread of the packets.
    package let busy = BusyTime()

    package init() {
        outside.setChainFunction { [own = inside.unowned, busy] buffer in
            busy.measure { _ = own.pushIfLinked(buffer) }
            return .ok
        }
        outside.setEventFunction { [own = inside.unowned] event in
            own.push(event)
            return .handled(true)
        }
        inside.setEventFunction { [own = outside.unowned] event in .handled(own.push(event)) }
        outside.setActive(true)
        inside.setActive(true)
    }

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
    }
}
