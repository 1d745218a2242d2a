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
        var current: Processor?
        var starting: Processor?
        /// Checks left for `starting` to start; nil once it has started.
        var startsWithin: Int?
        /// Frames are withheld until the first processor delivers, so that none is sent unprocessed.
        var holds = false
        /// Processors being removed, whose bus messages are ignored.
        var beingRemoved: [Processor] = []

        var all: [Processor] { [current, starting].compactMap { $0 } }

        /// Takes all that work or start; they are to be removed.
        mutating func takeAll() -> [Processor] {
            defer { (startsWithin, holds) = (nil, false) }
            return take(\.current) + take(\.starting)
        }

        /// Takes one that is to be removed.
        mutating func take(_ role: WritableKeyPath<State, Processor?>) -> [Processor] {
            guard let processor = self[keyPath: role].take() else { return [] }
            beingRemoved.append(processor)
            return [processor]
        }
    }
    private let state = StateLock(State())
    private let timer = PeriodicTimer("decart-processors")
    /// Entered while a processor is being started or removed.
    private let busy = DispatchGroup()
    /// Called with a processor's frames, on its streaming thread. It must let `takesTurn` decide whether a frame is forwarded.
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
        bring(text, holds: true, handle: element)
        // Longer than the start timeout, so a processor that does not start has been given up by then.
        let limit = Processor.interval * (Self.startLimit &+ 2)
        if text != nil { _ = busy.wait(timeout: .now() + .nanoseconds(Int(clamping: limit.clockTime))) }
    }

    /// Called in PAUSED to READY. Waits only 300 ms for the processors' threads, which may be blocked anywhere.
    package func stop() {
        timer.stop()
        remove(
            state.withLock { state in
                let (processors, beingRemoved) = (state.takeAll(), state.beingRemoved)
                state = State()
                state.beingRemoved = beingRemoved
                return processors
            })
        _ = busy.wait(timeout: .now() + .milliseconds(300))
    }

    /// Replaces the processor while the element runs; nil removes it. The same text again is another attempt.
    package func change(to text: String?) { bring(text, holds: false) }

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

    /// - Parameter handle: nil: as before.
    private func bring(_ text: String?, holds: Bool, handle: ElementHandle? = nil) {
        let processor = text.map { text in
            Processor(
                text,
                Processor.Handlers(
                    onFrame: { [weak self] in self?.onFrame($0, $1) },
                    onDrop: { [weak self] in self?.lost($0) }, onEnd: { [weak self] in self?.fail($0, $1) }))
        }
        let (element, isLive, former) = state.withLock { state -> (Bin?, Bool, [Processor]) in
            if let handle { state.handle = handle }
            guard let processor else {
                if handle == nil { state.condition = .none }
                return (nil, state.isLive, state.takeAll())
            }
            guard let handle = state.handle else { return (nil, state.isLive, []) }
            let element = state.element ?? handle.retained
            state.element = element
            let former = state.take(\.starting)
            (state.starting, state.startsWithin) = (processor, Self.startLimit)
            state.holds = holds || state.holds
            state.condition = .starting
            return (element, state.isLive, former)
        }
        remove(former)
        guard let element, let processor else { return }
        processor.set(live: isLive)
        timer.start(every: Processor.interval) { [weak self] in self?.look() }
        busy.enter()
        processor.start(in: element) { [weak self, busy] error in
            if let error { self?.fail(processor, error.message) } else { self?.started(processor) }
            busy.leave()
        }
    }

    private func started(_ processor: Processor) {
        state.withLock { if $0.starting === processor { $0.startsWithin = nil } }
    }

    /// - Parameter processors: those that the state has given up.
    func remove(_ processors: [Processor]) {
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
            if state.current === processor, state.starting != nil { return (nil, state.take(\.current)) }
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
        // For an input that is not live, the queue blocks instead.
        let counts = state.read { state in
            state.isLive && (state.current === processor || (state.holds && state.starting === processor))
        }
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
        let (current, starting, holds) = state.read { ($0.current, $0.starting, $0.holds) }
        current?.push(frame, caps)
        starting?.push(frame, caps)
        return current != nil || holds
    }

    /// Called for each frame of a processor. The first one of a new processor makes that the current processor.
    /// - Returns: true if the frame may be forwarded, and the former processor, to be removed.
    func takesTurn(_ processor: Processor) -> (isCurrent: Bool, former: Processor?) {
        state.withLock { state in
            guard state.starting === processor else { return (state.current === processor, nil) }
            let former = state.take(\.current).first
            (state.current, state.starting, state.startsWithin, state.holds) = (processor, nil, nil, false)
            state.condition = .active
            return (true, former)
        }
    }
}
