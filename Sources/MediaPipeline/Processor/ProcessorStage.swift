// Manages the processor that works on frames before they are encoded, if there is one. A new processor starts alongside
// the current one and takes over with its first frame; one that fails is bypassed, with a warning.
//
// No lock is held in a call-out.
import DecartProtocol
import Dispatch
package import GStreamerKit

// @unchecked: the handlers are set before the first frame; the rest locks itself.
package final class ProcessorStage: @unchecked Sendable {
    /// State of the processor that the property describes.
    package enum Condition: String, Sendable { case none, starting, active, bypassed }

    private struct State {
        /// Set only while the element runs.
        var handle: ElementHandle?
        /// Set from the first processor on, whose threads use it.
        var element: Bin?
        var condition = Condition.none
        var isLive = true
        var lastArrived: ClockTime?
        /// Running time of the last frame that left, processed or not.
        var lastPassed: ClockTime?
        var current: Processor?
        var starting: Processor?
        /// Checks left for `starting` to start; nil once it has started.
        var startsWithin: Int?
        /// Frames are withheld until the first processor delivers, so that none is sent unprocessed.
        var holds = false
        /// Processors being removed, whose bus messages are ignored.
        var beingRemoved: [Processor] = []

        var all: [Processor] { [current, starting].compactMap { $0 } }
        mutating func takeAll() -> [Processor] {
            defer { (current, starting, startsWithin, holds) = (nil, nil, nil, false) }
            return all
        }
    }
    private let state = StateLock(State())
    private let timer = PeriodicTimer("decart-processors")
    /// Entered while a processor is being started or removed.
    private let busy = DispatchGroup()
    /// Called with a processor's frames, on its streaming thread. It must let `passes` decide whether a frame is forwarded.
    /// Set before the first start.
    var onFrame: @Sendable (Processor, EncoderFrame) -> Void = { _, _ in }
    /// Called when a frame was dropped because the processor is too slow. Set before the first start.
    var onDrop: @Sendable () -> Void = {}

    /// Start timeout of a processor, in checks.
    private static let startLimit = Int(.seconds(5) / Processor.interval)

    package var condition: Condition { state.read(\.condition) }

    // MARK: State changes

    /// Called in READY to PAUSED. Returns when the processor has started, so that it gets the first frame, or has
    /// failed.
    package func start(_ text: String?, element: ElementHandle) {
        state.withLock { $0.handle = element }
        guard let text else { return }
        bring(text, holds: true)
        // Longer than the start timeout, so a processor that does not start has been given up by then.
        let limit = Processor.interval * (Self.startLimit &+ 2)
        _ = busy.wait(timeout: .now() + .nanoseconds(Int(clamping: limit.clockTime)))
    }

    /// Called in PAUSED to READY. Waits only 300 ms for the processors' threads, which may be blocked anywhere.
    package func stop() {
        timer.stop()
        let processors = state.withLock { state in
            let (processors, beingRemoved) = (state.takeAll(), state.beingRemoved)
            state = State()
            state.beingRemoved = beingRemoved
            return processors
        }
        remove(processors)
        _ = busy.wait(timeout: .now() + .milliseconds(300))
    }

    /// Replaces the processor while the element runs; nil removes it. The same text again is another attempt.
    package func change(to text: String?) {
        if let text { return bring(text, holds: false) }
        remove(
            state.withLock { state in
                state.condition = .none
                return state.takeAll()
            })
    }

    func set(live: Bool) {
        let processors = state.withLock { state in
            state.isLive = live
            return state.all
        }
        for processor in processors { processor.set(live: live) }
    }

    /// Resets the watchdogs: no frames are to be expected, because the element pauses or is muted.
    package func rest() {
        for processor in state.read(\.all) { processor.rest() }
    }

    // MARK: Starting and removing processors

    private func bring(_ text: String, holds: Bool) {
        let processor = Processor(
            text, isLive: state.read(\.isLive),
            Processor.Handlers(
                onFrame: { [weak self] in self?.onFrame($0, $1) },
                onDrop: { [weak self] in self?.lost($0) }, onEnd: { [weak self] in self?.fail($0, $1) }))
        let (element, former) = state.withLock { state -> (Bin?, Processor?) in
            guard let handle = state.handle else { return (nil, nil) }
            let element = state.element ?? handle.retained
            state.element = element
            let former = state.starting
            (state.starting, state.startsWithin) = (processor, Self.startLimit)
            state.holds = holds || state.holds
            state.condition = .starting
            return (element, former)
        }
        guard let element else { return }
        remove([former].compactMap { $0 })
        timer.start(every: Processor.interval) { [weak self] in self?.look() }
        busy.enter()
        processor.start(in: element) { [weak self, busy] error in
            if let error { self?.fail(processor, error.message) } else { self?.started(processor) }
            busy.leave()
        }
    }

    private func started(_ processor: Processor) {
        let isLive = state.withLock { state in
            if state.starting === processor { state.startsWithin = nil }
            return state.isLive
        }
        processor.set(live: isLive)
    }

    private func remove(_ processors: [Processor]) {
        state.withLock { $0.beingRemoved += processors }
        for processor in processors {
            busy.enter()
            processor.remove { [weak self, busy] in
                self?.state.withLock { $0.beingRemoved.removeAll { $0 === processor } }
                busy.leave()
            }
        }
    }

    private func look() {
        let (processors, late) = state.withLock { state -> ([Processor], Processor?) in
            if let left = state.startsWithin { state.startsWithin = left &- 1 }
            return (state.all, state.startsWithin.map { $0 <= 0 } == true ? state.starting : nil)
        }
        if let late { fail(late, "it did not start within 5 s") }
        for processor in processors where processor.isSilent() { fail(processor, "it delivers no frames") }
    }

    /// Any thread. Frames are forwarded unprocessed: the processor that this one was to replace is removed as well.
    private func fail(_ processor: Processor, _ why: String) {
        let (element, processors) = state.withLock { state -> (Bin?, [Processor]) in
            // A processor that is about to be replaced fails silently.
            if state.current === processor, state.starting != nil {
                state.current = nil
                return (nil, [processor])
            }
            guard state.current === processor || state.starting === processor else { return (nil, []) }
            state.condition = .bypassed
            return (state.element, state.takeAll())
        }
        remove(processors)
        guard let element else { return }
        let reason = why.printable(limit: 300).withoutFinalPoint
        element.postWarning(
            ElementProblem(
                .resourceFailed,
                "The processor '\(processor.text.printable(limit: 200))' is bypassed: \(reason). "
                    + "Frames are sent unprocessed."))
    }

    private func lost(_ processor: Processor) {
        let counts = state.withLock { $0.current === processor || ($0.holds && $0.starting === processor) }
        if counts { onDrop() }
    }

    /// Handles an error or warning of a child. Returns true if it ends a processor, also one that is being removed.
    package func claims(_ message: Message) -> Bool {
        let processors = state.withLock { $0.all + $0.beingRemoved }
        guard let processor = processors.first(where: { $0.fails(by: message) }) else { return false }
        fail(processor, Self.reason(of: message))
        return true
    }

    /// The debug text, such as "streaming stopped, reason not-negotiated (-4)", is often the only hint at the cause.
    private static func reason(of message: Message) -> String {
        let text = message.problem?.text ?? "error without a text"
        let reason = message.problem?.debug.split(separator: "\n").last { $0.contains("reason ") }
        return "\(message.sourceName): \(text)" + (reason.map { " (\($0.drop { !$0.isLetter }))" } ?? "")
    }

    // MARK: Frames

    /// Runs on the input's streaming thread. Returns true if the frame goes through a processor, or is withheld for
    /// one, and must not be forwarded as it is.
    /// - Parameter caps: those of the frame.
    func process(_ frame: EncoderFrame, _ caps: Event) -> Bool {
        let (current, starting, holds) = state.withLock { state in
            // A new stream or a seek backwards: the times of earlier frames no longer count.
            if let time = frame.runningTime, let last = state.lastArrived, time < last { state.lastPassed = nil }
            state.lastArrived = frame.runningTime
            return (state.current, state.starting, state.holds)
        }
        current?.push(frame, caps)
        starting?.push(frame, caps)
        return current != nil || holds
    }

    /// Called while an unprocessed frame leaves.
    func passed(_ frame: EncoderFrame) { state.withLock { $0.lastPassed = frame.runningTime } }

    /// Called while a processor's frame is about to leave; true if it is forwarded. The first frame of a new processor makes
    /// that one the current processor.
    func passes(_ frame: EncoderFrame, from processor: Processor) -> Bool {
        let (passes, former) = state.withLock { state -> (Bool, Processor?) in
            var former: Processor?
            if state.starting === processor {
                former = state.current
                (state.current, state.starting, state.startsWithin, state.holds) = (processor, nil, nil, false)
                state.condition = .active
            }
            guard state.current === processor, let time = frame.runningTime, state.lastPassed.map({ time > $0 }) ?? true
            else { return (false, former) }
            state.lastPassed = time
            return (true, former)
        }
        remove([former].compactMap { $0 })
        return passes
    }
}
