// A pair of bare pads between a jitter buffer and what decodes: an error that reached the jitter buffer would stop it for
// good, so whatever goes wrong behind this is swallowed. What stands there may come and go while packets pass.
package import GStreamerKit

// @unchecked: pads lock themselves.
package final class PacketDoor: @unchecked Sendable {
    private let outside = Pad(name: "packets_in", direction: .sink)
    let inside = Pad(name: "packets_out", direction: .source)

    package init() {
        outside.setChainFunction { [own = inside.unowned] buffer in
            _ = own.push(buffer)
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

    /// Packets come from here; until `close`.
    package func open(to source: Pad) throws(GStreamerError) { try source.link(outside) }
    var isOpen: Bool { outside.isLinked }
    /// From nowhere until it is opened again.
    func shut() { if let source = outside.peer { source.unlink(outside) } }

    /// And go on to there.
    package func link(to sink: Pad) throws(GStreamerError) { try inside.link(sink) }
    package func unlink() { if let sink = inside.peer { inside.unlink(sink) } }

    /// To the far side.
    package func push(upstream event: Event) { outside.push(event) }

    /// Before the bin around it is taken down.
    package func close() {
        outside.setActive(false)
        inside.setActive(false)
    }
}
