// One processor: the user's elements in a bin of their own, between converters and on a streaming thread of their own.
// Frames come out in the size in which they went in. This file must not know other processors.
//
// The user's elements may do anything: fail, block, never start. Calls that may block in them are made only on their
// own threads or on this processor's queue.
import EventLoopThreads
import GStreamerKit
import Synchronization

// @unchecked: elements and pads lock themselves; `made` belongs to the processor's streaming thread, `given` to the input's,
// `built` to the queue; the rest is in the mutex.
final class Processor: @unchecked Sendable {
    struct Handlers: Sendable {
        /// Called on the processor's streaming thread.
        var onFrame: @Sendable (Processor, EncoderFrame) -> Void
        /// The processor is slower than the input, and its queue dropped a frame.
        var onDrop: @Sendable (Processor) -> Void
        var onEnd: @Sendable (Processor, _ why: String) -> Void
    }

    /// The description as the user wrote it.
    let text: String
    private let handlers: Handlers
    private let work = SerialQueue(label: "decart-processor")
    private let entry = Pad(name: "processor_in", direction: .source)
    private let exit = Pad(name: "processor_out", direction: .sink)

    private struct Parts: Sendable {
        let bin: Bin
        let queue: Element
    }
    private struct State: Sendable {
        var parts: Parts?
        var isOver = false
        var newest: ClockTime?
        /// Frames that went in since one came out, and the number of checks in a row that found too many of them.
        var unanswered = 0
        var silence = 0
    }
    private let state = Mutex(State())
    private let isLive = Atomic(true)
    /// The bin with the elements, once they are made.
    private var built: Bin?
    /// The last caps event that went in.
    private var given: Event?
    /// Segment and frame size of the output.
    private var made: (segment: Event?, size: (width: Int, height: Int)) = (nil, (0, 0))

    /// Frames that may be in flight in the processor before its silence counts, and the checks for which that may last.
    private static let silenceLimit = (frames: 2, checks: 8)
    /// Time between two checks.
    static let interval: Duration = .milliseconds(250)

    init(_ text: String, _ handlers: Handlers) {
        self.text = text
        self.handlers = handlers
    }

    // MARK: Life cycle

    /// Creates the elements, adds them to `parent` and starts them, on the processor's own queue. `done` gets the
    /// error.
    func start(in parent: Bin, _ done: @escaping @Sendable (GStreamerError?) -> Void) {
        work.async { [self] in
            do throws(GStreamerError) {
                try build(in: parent)
                done(nil)
            } catch {
                done(error)
            }
        }
    }

    private func build(in parent: Bin) throws(GStreamerError) {
        let (first, last) = ("\(Self.ownPrefix)-queue", "\(Self.ownPrefix)-sized")
        // The parser of gst-launch links the whole chain, because it finds out which pads of an element take video.
        let bin = try Bin(
            description: """
                queue name=\(first) ! videoconvert ! \(text) ! videoconvert name=\(Self.ownPrefix)-converted \
                ! videoscale name=\(Self.ownPrefix)-scaled ! capsfilter name=\(last)
                """, ghostUnlinkedPads: false)
        guard let queue = bin.child(named: first), let sized = bin.child(named: last),
            let sink = queue.staticPad("sink"),
            let behindQueue = queue.staticPad("src")?.peer, let source = sized.staticPad("src")
        else { throw GStreamerError(.badDescription, "it is not a chain of elements with one input and one output") }
        // A source or sink in the description must not turn the element itself into a source or sink.
        bin.suppressSourceAndSinkFlags()
        bin.set("async-handling", true)
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        queue.connect("overrun") { [weak self] _ in
            if let self { self.handlers.onDrop(self) }
            return nil
        }
        behindQueue.dropFramesOfOtherCaps()
        // Runs on the processor's streaming thread, in order with the frames.
        behindQueue.addProbe(.downstreamEvent) { item in
            if case .event(let event) = item, let caps = event.caps { Self.keepSize(of: caps, sized) }
            return .pass
        }
        // videoscale would need filters of the same length for both fields.
        bin.child(named: "\(Self.ownPrefix)-converted")?.staticPad("sink")?.passAsProgressive()
        exit.setEventFunction { [weak self] event in
            self?.cameOut(event)
            return .handled(true)
        }
        exit.setChainFunction { [weak self] buffer in
            self?.cameOut(buffer)
            return .ok
        }
        exit.setActive(true)
        entry.setActive(true)
        try source.link(exit)
        try entry.link(sink)
        entry.push(Event.streamStart(id: "decart/processor", groupID: Event.nextGroupID()))

        built = bin
        let isWanted = state.withLock { state in
            state.parts = Parts(bin: bin, queue: queue)
            return !state.isOver
        }
        followLiveness()
        // While the state is locked, state changes of the parent do not wait for elements that block here.
        bin.setLockedState(true)
        if isWanted { parent.add(bin) }
        let isStarted = isWanted && bin.syncStateWithParent()
        bin.setLockedState(false)
        guard isStarted, bin.syncStateWithParent(), !state.withLock(\.isOver) else {
            tearDown(bin)
            throw GStreamerError(.stateChange, "it cannot be started")
        }
    }

    /// Takes effect immediately for frames and for the parent's state changes. The elements go down on the processor's
    /// queue, which then calls `done`.
    func remove(_ done: @escaping @Sendable () -> Void) {
        let bin = state.withLock { state in
            state.isOver = true
            return state.parts?.bin
        }
        bin?.setLockedState(true)
        work.async { [self] in
            if let bin = built { tearDown(bin) }
            done()
        }
    }

    private func tearDown(_ bin: Bin) {
        bin.setLockedState(true)
        bin.removeFromParent()
        // Unblocks a thread that is pushing a frame in.
        entry.push(Event.flushStart())
        bin.setState(.null)
        entry.setActive(false)
        exit.setActive(false)
    }

    /// True if the message ends the processor. A warning does so only from our own elements, which post it for frames
    /// that do not match their caps.
    func fails(by message: Message) -> Bool {
        posted(message) && (message.kind == .error || message.sourceName.hasPrefix(Self.ownPrefix))
    }
    private static let ownPrefix = "decart-processor"

    private func posted(_ message: Message) -> Bool {
        state.withLock(\.parts?.bin).map { message.isFrom(within: $0) } ?? false
    }

    /// A live input is never blocked, so the queue drops frames; for any other input the queue blocks and drops none.
    func set(live: Bool) {
        isLive.store(live, ordering: .releasing)
        followLiveness()
    }

    /// The processor's queue and the thread that knows the input may be here at once, so each looks again for a kind that is
    /// newer than the one it has set.
    private func followLiveness() {
        guard let queue = state.withLock(\.parts?.queue) else { return }
        var applied: Bool?
        while case let isLive = isLive.load(ordering: .acquiring), isLive != applied {
            queue.set("leaky", isLive ? "downstream" : "no")
            applied = isLive
        }
    }

    // MARK: Input (the input's streaming thread)

    func push(_ frame: EncoderFrame, _ caps: Event) {
        guard let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else { return }
        buffer.pts = time
        buffer.dts = nil
        let isReady = state.withLock { state in
            guard state.parts != nil, !state.isOver else { return false }
            state.newest = time
            state.unanswered &+= 1
            return true
        }
        guard isReady else { return }
        let before = exchange(&given, with: caps)
        if before !== caps { entry.push(caps) }
        if before == nil { entry.push(Event.timeSegment()) }
        // Because of the queue, the result belongs to an earlier frame. An element that fails has posted a better
        // message by then.
        switch entry.push(buffer) {
        case .ok, .flushing: break
        case .notNegotiated:
            handlers.onEnd(self, "it rejects the format of the frames, or its output cannot be converted")
        case .notLinked: handlers.onEnd(self, "its elements are not all linked")
        case .eos: handlers.onEnd(self, "it ended the stream (EOS)")
        case .error: handlers.onEnd(self, "it failed")
        }
    }

    /// Resets the watchdog: no frames come for a while, which is not the processor's fault.
    func rest() { state.withLock { ($0.unanswered, $0.silence) = (0, 0) } }

    /// Called at each check. Returns true if frames have gone in and none has come out for too long. It counts checks
    /// instead of time, because the whole process may have been suspended.
    func isSilent() -> Bool {
        state.withLock { state in
            state.silence = state.unanswered > Self.silenceLimit.frames ? state.silence &+ 1 : 0
            return state.silence >= Self.silenceLimit.checks
        }
    }

    // MARK: Output (the processor's streaming thread)

    private static func keepSize(of caps: Caps, _ sized: Element) {
        guard let info = VideoInfo(caps: caps),
            let wanted = try? Caps(EncoderFrame.caps(width: info.width, height: info.height))
        else { return }
        sized.set("caps", caps: wanted)
    }

    private func cameOut(_ event: Event) {
        switch event.kind {
        case .segment: made.segment = event
        case .caps:
            if let info = event.caps.flatMap(VideoInfo.init(caps:)) { made.size = (info.width, info.height) }
        case .eos: handlers.onEnd(self, "it ended the stream (EOS)")
        default: break
        }
    }

    private func cameOut(_ buffer: Buffer) {
        guard let time = buffer.pts.flatMap({ made.segment?.runningTime(of: $0) }) else { return }
        let isUsable = state.withLock { state in
            // Frames must leave in rising order, so one with a time in the future would block all frames until then.
            guard !state.isOver, let newest = state.newest, time <= newest else { return false }
            (state.unanswered, state.silence) = (0, 0)
            return true
        }
        if isUsable { handlers.onFrame(self, EncoderFrame(buffer: buffer, size: made.size, runningTime: time)) }
    }
}
