// Which processor works on the pictures before they are encoded, if any. A new one is started beside what is there and
// takes over with its first picture; one that fails is bypassed, with a warning. It knows pictures and the bus; it must not
// know sessions.
//
// No lock is held in a call-out.
import DecartSession
import Dispatch
import GStreamerKit
import Synchronization

final class ProcessorStage: Sendable {
    /// What has become of the property's value.
    enum Condition: String, Sendable { case none, starting, active, bypassed }

    private struct State {
        /// While the element runs, and not longer.
        var element: Bin?
        var condition = Condition.none
        var isLive = true
        /// Of the pictures that arrive.
        var caps: Event?
        var lastArrived: ClockTime?
        /// Of those that left here, whether processed or not.
        var lastPassed: ClockTime?
        var current: Processor?
        var coming: Processor?
        /// What `coming` may still take to start, in looks at it; nil once it has.
        var startsWithin: Int?
        /// Pictures wait for the first processor, so that none goes out without it.
        var holds = false
        /// On their way out: what they still say is nobody's trouble.
        var leaving: [Processor] = []

        var all: [Processor] { [current, coming].compactMap { $0 } }
        mutating func takeAll() -> [Processor] {
            defer { (current, coming, startsWithin, holds) = (nil, nil, nil, false) }
            return all
        }
    }
    private let state = Mutex(State())
    private let timer = PeriodicTimer("decart-processors")
    /// What is being started or taken down.
    private let busy = DispatchGroup()
    private struct Handlers {
        var onPicture: (@Sendable (Processor, EncoderFrame) -> Void)?
        var onDrop: (@Sendable () -> Void)?
    }
    private let handlers = Mutex(Handlers())

    /// How long a processor may take to start, in looks at it.
    private static let startPatience = 5000 / Processor.interval

    /// A picture comes out of a processor, on its thread; whether it goes on is to be asked of `passes`.
    func onPicture(_ handler: @escaping @Sendable (Processor, EncoderFrame) -> Void) {
        handlers.withLock { $0.onPicture = handler }
    }

    /// A picture was lost because the processor is too slow.
    func onDrop(_ handler: @escaping @Sendable () -> Void) { handlers.withLock { $0.onDrop = handler } }

    var condition: Condition { state.withLock(\.condition) }

    // MARK: With the element

    /// On the way up: returns when the processor is started, so that the first picture meets it, or has failed.
    func start(_ text: String?, element: ElementHandle) {
        state.withLock { $0.element = element.retained }
        guard let text else { return }
        bring(text, holds: true)
        // Longer than its looks take: by then it has been given up.
        _ = busy.wait(timeout: .now() + .milliseconds(Processor.interval &* (Self.startPatience &+ 2)))
    }

    /// On the way down; waits a little for the processor's threads, which may stand anywhere.
    func stop() {
        timer.stop()
        let processors = state.withLock { state in
            let (processors, leaving) = (state.takeAll(), state.leaving)
            state = State()
            state.leaving = leaving
            return processors
        }
        remove(processors)
        _ = busy.wait(timeout: .now() + .milliseconds(300))
    }

    /// nil for none. While the element runs; the same text again is another try.
    func change(to text: String?) {
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

    /// Pictures are not to be waited for: the element pauses, or is muted.
    func rest() {
        for processor in state.withLock(\.all) { processor.rest() }
    }

    // MARK: Processors that come and go

    private func bring(_ text: String, holds: Bool) {
        let processor = Processor(
            text, isLive: state.withLock(\.isLive),
            Processor.Handlers(
                onPicture: { [weak self] in self?.handlers.withLock(\.onPicture)?($0, $1) },
                onDrop: { [weak self] in self?.lost($0) }, onEnd: { [weak self] in self?.fail($0, $1) }))
        let (element, former) = state.withLock { state -> (Bin?, Processor?) in
            guard let element = state.element else { return (nil, nil) }
            let former = state.coming
            (state.coming, state.startsWithin) = (processor, Self.startPatience)
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
            if state.coming === processor { state.startsWithin = nil }
            return state.isLive
        }
        processor.set(live: isLive)
    }

    private func remove(_ processors: [Processor]) {
        state.withLock { $0.leaving += processors }
        for processor in processors {
            busy.enter()
            processor.remove { [weak self, busy] in
                self?.state.withLock { $0.leaving.removeAll { $0 === processor } }
                busy.leave()
            }
        }
    }

    private func look() {
        let (processors, late) = state.withLock { state -> ([Processor], Processor?) in
            if let left = state.startsWithin { state.startsWithin = left &- 1 }
            return (state.all, state.startsWithin.map { $0 <= 0 } == true ? state.coming : nil)
        }
        if let late { fail(late, "it does not start") }
        for processor in processors where processor.isSilent() { fail(processor, "it gives no pictures") }
    }

    /// Any thread. Pictures go on without it, and without one that was to be replaced by it.
    private func fail(_ processor: Processor, _ why: String) {
        let (element, processors) = state.withLock { state -> (Bin?, [Processor]) in
            // What was to be replaced may fail while nobody minds.
            if state.current === processor, state.coming != nil {
                state.current = nil
                return (nil, [processor])
            }
            guard state.current === processor || state.coming === processor else { return (nil, []) }
            state.condition = .bypassed
            return (state.element, state.takeAll())
        }
        remove(processors)
        guard let element else { return }
        let reason = why.printable(limit: 300)
        element.postWarning(
            ElementProblem(
                .resourceFailed,
                "The processor '\(processor.text.printable(limit: 200))' is bypassed: \(reason)\(reason.hasSuffix(".") ? "" : ".") "
                    + "Pictures go on without it."))
    }

    private func lost(_ processor: Processor) {
        let counts = state.withLock { $0.current === processor || ($0.holds && $0.coming === processor) }
        if counts { handlers.withLock(\.onDrop)?() }
    }

    /// Whether a child's error or warning is a processor's end.
    func takesOver(_ message: Message) -> Bool {
        let processors = state.withLock { $0.all + $0.leaving }
        guard let processor = processors.first(where: { $0.fails(by: message) }) else { return false }
        fail(processor, Self.words(message))
        return true
    }

    /// "streaming stopped, reason not-negotiated (-4)" is all that says what has happened, where it is there.
    private static func words(_ message: Message) -> String {
        let text = message.problem?.text ?? "it fails"
        let reason = message.problem?.debug.split(separator: "\n").last { $0.contains("reason ") }
        return "\(message.sourceName): \(text)" + (reason.map { " (\($0.drop { !$0.isLetter }))" } ?? "")
    }

    // MARK: Pictures

    /// The input's thread.
    func take(caps: Event) { state.withLock { $0.caps = caps } }

    /// The input's thread: whether the picture is a processor's affair and not to go on as it is.
    func take(_ frame: EncoderFrame) -> Bool {
        let (caps, current, coming, holds) = state.withLock { state in
            // Another stream, or a jump back: what passed before says nothing any more.
            if let time = frame.runningTime, let last = state.lastArrived, time < last { state.lastPassed = nil }
            state.lastArrived = frame.runningTime
            return (state.caps, state.current, state.coming, state.holds)
        }
        guard let caps else { return false }
        current?.take(frame, caps)
        coming?.take(frame, caps)
        return current != nil || holds
    }

    /// While it leaves: a picture goes on as it is.
    func passed(_ frame: EncoderFrame) { state.withLock { $0.lastPassed = frame.runningTime } }

    /// While it is about to leave: whether a processor's picture goes on. The first one of a new processor makes it the one.
    func passes(_ frame: EncoderFrame, from processor: Processor) -> Bool {
        let (passes, former) = state.withLock { state -> (Bool, Processor?) in
            var former: Processor?
            if state.coming === processor {
                former = state.current
                (state.current, state.coming, state.startsWithin, state.holds) = (processor, nil, nil, false)
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
