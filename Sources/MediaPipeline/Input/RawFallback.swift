// `fallback=passthrough`: shows the raw input, scaled to the output's size, while the service sends nothing. It is the
// only way from the input to the output, and exists only if the user asked for it.
package import GStreamerKit

// @unchecked: elements and pads are thread-safe; mutable state belongs to the thread that delivers the input's frames, one at
// a time, which also runs the elements here.
package final class RawFallback: @unchecked Sendable {
    private let element: ElementHandle
    private let input: InputChain
    private let output: VideoOutput
    private let scale: Element
    private let filter: Element
    private let entry = Pad(name: "raw_fallback_in", direction: .source)
    private let exit = Pad(name: "raw_fallback_out", direction: .sink)
    private var format: OutputFormat?
    private var sent: (width: Int, height: Int)?
    /// Size of the frames that come out of `filter`.
    private var scaled: OutputFormat?

    package init(element: ElementHandle, input: InputChain, output: VideoOutput) throws(GStreamerError) {
        self.element = element
        self.input = input
        self.output = output
        scale = try Element(factory: "videoscale")
        scale.set("add-borders", true)
        filter = try Element(factory: "capsfilter")
        exit.setChainFunction { [weak self, weak output] buffer in
            if let format = self?.scaled { output?.setRaw(buffer, format) }
            return .ok
        }
        exit.setEventFunction { [weak self] event in
            if let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                self?.scaled = OutputFormat(width: info.width, height: info.height)
            }
            return .handled(true)
        }
        exit.setActive(true)
        entry.setActive(true)
        try entry.link(try element.unowned.insert([scale, filter], before: exit))
        entry.push(Event.streamStart(id: "decart/fallback", groupID: Event.nextGroupID()))
        input.addDelivery(path: .raw) { [weak self] frame in
            if frame.encoded == nil { self?.forward(frame, frame.size) }
            return true
        }
        input.gate.open(path: .raw)
    }

    private func forward(_ frame: EncoderFrame, _ size: (width: Int, height: Int)) {
        if let wanted = output.negotiatedFormat, exchange(&format, with: wanted) != wanted {
            let text =
                "video/x-raw, width=(int)\(wanted.width), height=(int)\(wanted.height), pixel-aspect-ratio=(fraction)1/1"
            if let caps = try? Caps(text) { filter.set("caps", caps: caps) }
        }
        if exchange(&sent, with: size).map({ $0 != size }) ?? true {
            let format = OutputFormat(width: size.width, height: size.height)
            if let caps = try? Caps(format.capsText) { entry.push(Event.caps(caps)) }
            entry.push(Event.timeSegment())
        }
        if let buffer = frame.buffer.copyOfMetadata() { _ = entry.push(buffer) }
    }

    package func remove() {
        input.gate.close(path: .raw)
        input.removeDelivery(path: .raw)
        entry.setActive(false)
        element.unowned.takeOut([scale, filter])
        exit.setActive(false)
    }
}
