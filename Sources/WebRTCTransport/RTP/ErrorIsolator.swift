// A pair of bare pads between a jitter buffer and a decoder. A flow error that reached the jitter buffer would stop it
// for good, so this pair discards all errors from downstream. The receiver may be added and removed while packets pass.
package import GStreamerKit

// @unchecked: pads do their own locking.
package final class ErrorIsolator: @unchecked Sendable {
    private let outside = Pad(name: "packets_in", direction: .sink)
    let inside = Pad(name: "packets_out", direction: .source)
    /// Time for which the receiver has kept the thread of the packets.
    package let busy = BusyTime()

    package convenience init() { self.init(gate: nil) }

    /// - Parameter gate: holds packets back while others enter the jitter buffer.
    init(gate: BatchGate?) {
        outside.setChainFunction { [own = inside.unowned, busy] buffer in
            gate?.pass()
            busy.measure { _ = own.push(buffer) }
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
    var isOpen: Bool { outside.isLinked }
    /// Unlinks the source; `open` may be called again.
    func shut() { if let source = outside.peer { source.unlink(outside) } }

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
