// Helpers shared by the media of direct sessions and of rooms.
import Dispatch
import GStreamerKit
import WebRTCTransport

extension VideoEncoderBin {
    /// Corrupts encoded frames between encoder and payloader, where each buffer is a whole frame.
    func spoilFrames(while faults: MediaFaults) {
        guard let payloader = bin.allElements.first(where: { $0.factoryName?.hasSuffix("pay") ?? false }),
            let sink = payloader.staticPad("sink")
        else { return }
        sink.addProbe(.buffer) { item in
            guard case .buffer(let buffer) = item, faults.isOn(.garbage),
                let copy = buffer.withBytes({ Buffer(copying: $0) })
            else { return .pass }
            (copy.pts, copy.dts, copy.duration) = (buffer.pts, buffer.dts, buffer.duration)
            _ = copy.withMutableBytes(Garbage.spoil)
            return .replace(copy)
        }
    }

    /// Adds the capsfilter that the packets leave through. Its caps select the payloader's SSRC: another one than
    /// `described` with the `wrongSSRC` fault. Without such caps, the payloader takes the described SSRC from the RTP
    /// session.
    func exit(_ faults: MediaFaults, described: UInt32, in pipeline: Pipeline) throws -> Element {
        let other = try Element(factory: "capsfilter")
        if faults.contains(.wrongSSRC) { try Self.setSSRC(described &+ 0x1234_5678, at: other) }
        pipeline.add(other)
        try bin.link(other)
        other.syncStateWithParent()
        return other
    }

    /// - Parameter exit: The element returned by `exit`.
    static func setSSRC(_ ssrc: UInt32, at exit: Element) throws {
        exit.set("caps", caps: try Caps("application/x-rtp, ssrc=(uint)\(ssrc)"))
    }
}

extension Element {
    func link(_ source: String, to downstream: Element, _ sink: String) throws {
        guard let source = staticPad(source), let sink = downstream.staticPad(sink) else {
            throw GStreamerError(.linkFailed, "a pad is missing")
        }
        try source.link(sink)
    }
}

extension Pipeline {
    /// Empties the bus with a timer: no main loop runs here, and an unread bus would grow without limit.
    func watchBus(on queue: DispatchQueue, onError: @escaping @Sendable (String) -> Void) -> any DispatchSourceTimer {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + .milliseconds(100), repeating: .milliseconds(100), leeway: .milliseconds(50))
        let bus = bus
        timer.setEventHandler {
            while let message = bus.next(timeout: .zero) {
                if message.kind == .error { onError("the media pipeline failed: \(message.problem?.text ?? "")") }
            }
        }
        timer.resume()
        return timer
    }
}
