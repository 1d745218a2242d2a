// A pair of bare pads between a jitter buffer and what decodes: an error that reached the jitter buffer would stop it for
// good, so whatever goes wrong behind this is swallowed. What stands there may come and go while packets pass.
import GStreamerKit

// @unchecked: pads lock themselves.
final class PacketDoor: @unchecked Sendable {
    private let outside = Pad(name: "packets_in", direction: .sink)
    private let inside = Pad(name: "packets_out", direction: .source)

    init() {
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
    func open(to source: Pad) throws(GStreamerError) { try source.link(outside) }

    /// And go on to there.
    func link(to sink: Pad) throws(GStreamerError) { try inside.link(sink) }
    func unlink() { if let sink = inside.peer { inside.unlink(sink) } }

    /// To the far side.
    func push(upstream event: Event) { outside.push(event) }

    /// Before the bin around it is taken down.
    func close() {
        outside.setActive(false)
        inside.setActive(false)
    }
}
