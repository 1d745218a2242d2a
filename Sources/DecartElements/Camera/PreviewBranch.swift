// The pad `preview`: local video as it is sent. If its consumer is slow or blocks, the preview drops frames and the
// camera does not; if it closes, ends or fails, the camera does not notice.
import Dispatch
import EventLoopThreads
import GStreamerKit
import MediaPipeline
import Synchronization

// @unchecked: elements and pads lock themselves; `hasEnded` belongs to the queue's thread.
final class PreviewBranch: @unchecked Sendable {
    let pad: Pad
    private let queue: Element
    private let tee: Element
    private let branch: Pad
    /// Between the queue and the pad: it takes everything, so that no flow return of the consumer reaches the tee.
    private let entry = Pad(name: "preview_in", direction: .sink)
    /// The consumer has not taken a frame: a flush takes the segment from it.
    private let needsStream = Atomic(false)
    /// EOS has left.
    private var hasEnded = false
    /// The output's EOS was undone, and so is that of the preview in front of its next frame.
    private let isResumed = Atomic(false)

    init(element: ElementHandle, tee: Element) throws(GStreamerError) {
        self.tee = tee
        queue = try Element(factory: "queue", name: "preview-queue")
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        queue.set("leaky", "downstream")
        let bin = element.unowned
        guard let sink = queue.staticPad("sink"), let source = queue.staticPad("src"),
            let pad = element.makePad(template: "preview"), let branch = tee.requestPad("src_%u")
        else { throw GStreamerError(.linkFailed, "the preview has no pads") }
        (self.pad, self.branch) = (pad, branch)
        bin.add(queue)
        sink.answerSerializedQueries()
        source.dropFramesOfOtherCaps()
        connect()
        entry.setActive(true)
        try source.link(entry)
        pad.setActive(true)
        bin.add(pad)
        queue.syncStateWithParent()
        try branch.link(sink)
    }

    private func connect() {
        let (pad, entry) = (pad.unowned, entry.unowned)
        self.entry.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            restoreStream()
            if FlowDuty(pad.push(buffer), of: .preview) == .tryAgain { needsStream.store(true, ordering: .relaxed) }
            return .ok
        }
        // One that the consumer does not take would be an error of the queue's with the next frame.
        self.entry.setEventFunction { [weak self] event in
            switch event.kind {
            case .gap: self?.restoreStream()
            case .eos: self?.hasEnded = true
            default: break
            }
            pad.push(event)
            return .handled(true)
        }
        self.entry.setQueryFunction { pad.isLinked ? pad.ask($0) : .forward }
        // A flush of the consumer's would stop the tee, its end would wait for the queue, and a decoder in front of the tee
        // leaves out frames for a sink that is late.
        self.pad.setEventFunction { .handled([.flushStart, .flushStop, .qos].contains($0.kind) || entry.push($0)) }
        self.pad.setQueryFunction { entry.ask($0) }
    }

    /// In front of a frame, on the queue's thread. `entry` has the events of the stream also if the pad could not take them.
    private func restoreStream() {
        if hasEnded, isResumed.exchange(false, ordering: .relaxed) {
            // Sinks take nothing behind EOS without a flush. This one keeps the consumer's running time.
            pad.push(Event.flushStart())
            pad.push(Event.flushStop(resetTime: false))
            hasEnded = false
            needsStream.store(true, ordering: .relaxed)
        }
        if needsStream.exchange(false, ordering: .relaxed) || pad.lacksSegment { pad.repeatStream(of: entry) }
    }

    /// Sends EOS after the queued frames.
    func end() {
        isResumed.store(false, ordering: .relaxed)
        queue.staticPad("sink")?.send(Event.eos())
    }

    /// Undoes EOS once frames come.
    func resume() { isResumed.store(true, ordering: .relaxed) }

    func remove(from bin: Bin) {
        if let sink = queue.staticPad("sink") { branch.unlink(sink) }
        tee.releaseRequestPad(branch)
        queue.setLockedState(true)
        // The queue's thread may be in a push that blocks, in a consumer that has prerolled or is full. A flush returns
        // it; `resetTime` false keeps the consumer's running time. A consumer that blocks all the same, and so the flush
        // too, keeps the thread and the queue until it returns.
        let stopped = DispatchSemaphore(value: 0)
        SerialQueue(label: "decart-preview-end").async { [queue, pad, entry] in
            pad.push(Event.flushStart())
            queue.setState(.null)
            pad.push(Event.flushStop(resetTime: false))
            pad.setActive(false)
            entry.setActive(false)
            stopped.signal()
        }
        _ = stopped.wait(timeout: .now() + 1)
        bin.remove(pad)
        bin.remove(queue)
    }
}
