// The pad `preview`: local video as it is sent. If its consumer is slow or blocks, the preview drops frames and the
// camera does not.
import Dispatch
import EventLoopThreads
import GStreamerKit

// @unchecked: elements and pads lock themselves.
final class PreviewBranch: @unchecked Sendable {
    let pad: GhostPad
    private let queue: Element
    private let tee: Element
    private let branch: Pad

    init(element: ElementHandle, tee: Element) throws(GStreamerError) {
        self.tee = tee
        queue = try Element(factory: "queue", name: "preview-queue")
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        queue.set("leaky", "downstream")
        let bin = element.unowned
        guard let sink = queue.staticPad("sink"), let source = queue.staticPad("src"),
            let pad = element.makeGhostPad(template: "preview"), let branch = tee.requestPad("src_%u")
        else { throw GStreamerError(.linkFailed, "the preview has no pads") }
        (self.pad, self.branch) = (pad, branch)
        bin.add(queue)
        queue.syncStateWithParent()
        pad.setTarget(source)
        pad.dropFramesOfOtherCaps()
        pad.setActive(true)
        bin.add(pad)
        try branch.link(sink)
    }

    /// Sends EOS after the queued frames.
    func end() { queue.staticPad("sink")?.send(Event.eos()) }

    func remove(from bin: Bin) {
        if let sink = queue.staticPad("sink") { branch.unlink(sink) }
        tee.releaseRequestPad(branch)
        queue.setLockedState(true)
        // The queue's thread may be in a push that blocks, in a consumer that has prerolled or is full. A flush returns
        // it; `resetTime` false keeps the consumer's running time. A consumer that blocks all the same, and so the flush
        // too, keeps the thread and the queue until it returns.
        let stopped = DispatchSemaphore(value: 0)
        SerialQueue(label: "decart-preview-end").async { [queue, pad] in
            pad.push(Event.flushStart())
            queue.setState(.null)
            pad.push(Event.flushStop(resetTime: false))
            pad.setActive(false)
            stopped.signal()
        }
        _ = stopped.wait(timeout: .now() + 1)
        bin.remove(pad)
        bin.remove(queue)
    }
}
