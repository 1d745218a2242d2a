// The source pad of a live stream and the one streaming thread that pushes from it: what the video and the audio output
// have in common. The owner decides what is pushed, and when.
import Dispatch
import EventLoopThreads
import GStreamerKit
import Synchronization

final class LiveSourcePad: Sendable {
    /// The owner's part; called on any thread.
    struct Handlers: Sendable {
        /// Called before the streaming thread starts, and before it is stopped.
        var onActive: @Sendable (Bool) -> Void
        /// One turn of the streaming thread.
        var turn: @Sendable () -> Void
        /// Answers to queries, ns. No maximum is answered for the latency: nothing here limits how much downstream may
        /// buffer.
        var latency: @Sendable () -> ClockTime?
        var position: @Sendable () -> ClockTime?
        /// Handles an upstream event, except those that refer to the output's timeline only: QOS and LATENCY are
        /// swallowed, because the input has a timeline of its own, and a live stream cannot seek.
        var onUpstreamEvent: @Sendable (Event) -> Bool
    }

    let pad: Pad
    private let element: ElementHandle
    private let log: DebugCategory
    private let work = DispatchSemaphore(value: 0)
    private let configuredLatency = Atomic<ClockTime>(0)
    /// A push has found downstream flushing, which takes the segment from it.
    private let needsSegment = Atomic(false)
    /// The streaming thread does not wait, because another thread waits for the end of its turn.
    private let isReleased = Atomic(false)
    /// The pad's task is to run. A lock, so that `resume` starts no task again that the pad's deactivation has stopped.
    private let isActive = Mutex(false)
    /// The latency that the pipeline has distributed, ns: a sink holds an event for that long.
    var pipelineLatency: ClockTime { configuredLatency.load(ordering: .relaxed) }

    init(_ pad: Pad, element: ElementHandle, log: DebugCategory) {
        self.pad = pad
        self.element = element
        self.log = log
    }

    /// The pad keeps the handlers, so they must not retain this object.
    func setHandlers(_ handlers: Handlers) {
        pad.setActivateFunction { [weak self] active in
            handlers.onActive(active)
            self?.isActive.withLock { $0 = active }
            guard active else {
                self?.release()
                self?.pad.stopTask()
                return true
            }
            self?.isReleased.store(false, ordering: .relaxed)
            return self?.start(handlers) ?? true
        }
        pad.setEventFunction { [weak self] event in
            switch event.kind {
            case .latency:
                if let latency = event.latencyTime { self?.configuredLatency.store(latency, ordering: .relaxed) }
                return .handled(true)
            case .qos, .flushStart, .flushStop: return .handled(true)
            case .seek: return .handled(false)
            default: return .handled(handlers.onUpstreamEvent(event))
            }
        }
        pad.setQueryFunction { query in
            switch query.kind {
            case .latency:
                guard let latency = handlers.latency() else { return .refused }
                query.answerLatency(live: true, minimum: latency, maximum: nil)
            case .seeking: query.answerNotSeekable()
            case .position:
                guard let position = handlers.position(), query.answerPosition(position) else { return .refused }
            case .duration: return .refused
            default: return .forward
            }
            return .answered
        }
    }

    /// Returns false if there is no thread, because of which the change of state fails.
    private func start(_ handlers: Handlers) -> Bool {
        guard !pad.startTask(handlers.turn) else { return true }
        isActive.withLock { $0 = false }
        handlers.onActive(false)
        element.unowned.postError(
            ElementProblem(
                .resourceFailed, "The process has no thread left for the frames of '\(pad.name)'. Raise its limits."))
        return false
    }

    /// Ends the streaming thread of a pad that has left its element. The thread may be stuck downstream, in a branch of
    /// the application: only that branch's end releases it, so another thread waits for it.
    func abandon() {
        isActive.withLock { $0 = false }
        release()
        SerialQueue(label: "decart-abandoned-pad").async { [pad = pad, element = element.retained] in
            withExtendedLifetime(element) { pad.stopTask() }
        }
    }

    /// Undoes EOS. The flush clears the EOS of the branch behind the pad, and keeps the running time of its pipeline; a
    /// SEGMENT has to follow.
    /// - Parameter reset: undoes the owner's end of the stream. The turn of the streaming thread that has decided for EOS is
    ///   over when it runs, as in GStreamer's queue: what was decided before does not end the stream that begins.
    func resume(_ reset: () -> Void) {
        pad.push(Event.flushStart())
        release()
        pad.pauseTask()
        reset()
        pad.push(Event.flushStop(resetTime: false))
        isActive.withLock { active in
            guard active else { return }
            isReleased.store(false, ordering: .relaxed)
            pad.resumeTask()
        }
    }

    // MARK: Streaming thread

    /// Lets the streaming thread look again. Any thread.
    func wake() { work.signal() }

    private func release() {
        isReleased.store(true, ordering: .relaxed)
        wake()
    }

    /// Waits until `wake`; the last act of a turn.
    /// - Parameter time: longest wait, ns; nil: without limit.
    func wait(atMost time: ClockTime?) {
        guard !isReleased.load(ordering: .relaxed) else { return }
        let limit = time.map { DispatchTime.now() + .nanoseconds(Int(clamping: $0)) } ?? .distantFuture
        pad.betweenTurns { _ = work.wait(timeout: limit) }
    }

    /// Pushes a buffer and carries out what its flow return asks of the pad. The owner pushes nothing after `end` and `fail`.
    /// - Parameter remedy: an element that converts between formats.
    func push(_ buffer: Buffer, from kind: OutputPad, remedy: String) -> FlowDuty {
        restoreSegment()
        let flow = pad.push(buffer)
        let duty = FlowDuty(flow, of: kind)
        switch duty {
        case .goOn: break
        case .tryAgain: if flow == .flushing { needsSegment.store(true, ordering: .relaxed) }
        case .end:
            // Each of downstream's sinks is to post its EOS.
            pad.push(Event.eos())
        case .fail: fail(flow, remedy: remedy)
        }
        return duty
    }

    func pushGap(at time: ClockTime, _ duration: ClockTime) {
        restoreSegment()
        pad.push(Event.gap(at: time, duration: duration))
    }

    private func restoreSegment() {
        if needsSegment.exchange(false, ordering: .relaxed) || pad.lacksSegment { pad.push(Event.timeSegment()) }
    }

    func announce(_ id: String, _ groupID: UInt32, caps: String?) {
        pad.push(Event.streamStart(id: id, groupID: groupID))
        if let caps = caps.flatMap({ try? Caps($0) }) { pad.push(Event.caps(caps)) }
        pad.push(Event.timeSegment())
    }

    /// Ends the stream because downstream refuses it.
    /// - Parameter remedy: an element that converts between formats.
    private func fail(_ flow: FlowReturn, remedy: String) {
        log(.warning, element.unowned, "downstream of '\(pad.name)' refused a buffer: \(flow)")
        pad.push(Event.eos())
        let debug = "streaming stopped, reason \(flow)"
        guard flow == .notLinked || flow == .notNegotiated else {
            element.unowned.postError(ElementProblem(.streamFailed, "Internal data stream error.", debug: debug))
            return
        }
        // gst-launch-1.0 waits with a refused link for a pad that may come, because the element has a sometimes pad.
        let cause = flow == .notLinked ? "Nothing is linked to" : "Downstream does not accept the format of"
        let sink = flow == .notLinked ? ", correct caps that follow it, and add a sink if there is none" : ""
        element.unowned.postError(
            ElementProblem(
                .coreNegotiation, "\(cause) '\(pad.name)'. Put \(remedy) behind the element\(sink).", debug: debug))
    }
}
