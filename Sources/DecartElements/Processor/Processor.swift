// One processor: the user's elements in a bin of their own, between converters and on a thread of their own. What goes in
// comes out in the same size. It knows pictures; it must not know others of its kind, nor sessions.
//
// The user's elements may do anything: fail, stand still, never start. Nothing that may block in them runs on another
// thread than theirs, or than this processor's queue.
import DecartSession
import Dispatch
import GStreamerKit
import Synchronization

// @unchecked: elements and pads lock themselves; the rest is in the mutex.
final class Processor: @unchecked Sendable {
    struct Handlers: Sendable {
        /// On the processor's thread.
        var onPicture: @Sendable (Processor, EncoderFrame) -> Void
        /// It is slower than the pictures come: one was lost.
        var onDrop: @Sendable (Processor) -> Void
        var onEnd: @Sendable (Processor, _ why: String) -> Void
    }

    /// As the user wrote it.
    let text: String
    private let handlers: Handlers
    private let work = DispatchQueue(label: "decart-processor")
    private let entry = Pad(name: "processor_in", direction: .source)
    private let exit = Pad(name: "processor_out", direction: .sink)

    private struct Parts: Sendable {
        let bin: Bin
        let queue: Element
        let sized: Element
    }
    private struct State {
        var parts: Parts?
        var isLive: Bool
        var isOver = false
        /// The last that went in.
        var caps: Event?
        var newest: ClockTime?
        /// Pictures that went in since one came out, and for how many looks there have been too many.
        var unanswered = 0
        var silence = 0
        /// Of what comes out.
        var segment: Event?
        var size = (width: 0, height: 0)
    }
    private let state: Mutex<State>

    /// How many pictures may be under way in it before its silence counts, and for how many looks that may last.
    private static let patience = (pictures: 2, looks: 8)
    /// ms, between two looks.
    static let interval = 250

    init(_ text: String, isLive: Bool, _ handlers: Handlers) {
        self.text = text
        self.handlers = handlers
        state = Mutex(State(isLive: isLive))
    }

    // MARK: Life

    /// On the processor's own queue: makes the elements, puts them into `parent` and starts them. `done` is told why not.
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
        // Linked by gst-launch itself: it knows which of an element's pads take pictures.
        let bin = try Bin(
            description: """
                queue name=\(first) ! videoconvert ! \(text) ! videoconvert name=\(Self.ownPrefix)-converted \
                ! videoscale name=\(Self.ownPrefix)-scaled ! capsfilter name=\(last)
                """, ghostUnlinkedPads: false)
        guard let queue = bin.child(named: first), let sized = bin.child(named: last), let sink = queue.staticPad("sink"),
            let between = queue.staticPad("src"), let source = sized.staticPad("src")
        else { throw GStreamerError(.badDescription, "it is no chain of elements") }
        // Its sinks and sources are nobody else's affair.
        bin.suppressSourceAndSinkFlags()
        bin.set("async-handling", true)
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        queue.connect("overrun") { [weak self] _ in
            if let self, self.state.withLock(\.isLive) { self.handlers.onDrop(self) }
            return nil
        }
        // On the processor's thread, in order with the pictures.
        between.addProbe(.downstreamEvent) { [weak self] item in
            if case .event(let event) = item, let caps = event.caps { self?.keepSize(of: caps) }
            return .pass
        }
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

        let isWanted = state.withLock { state in
            state.parts = Parts(bin: bin, queue: queue, sized: sized)
            queue.set("leaky", state.isLive ? "downstream" : "no")
            return !state.isOver
        }
        // While it is locked, the parent's own changes of state do not wait for what blocks here.
        bin.setLockedState(true)
        if isWanted { parent.add(bin) }
        let isStarted = isWanted && bin.syncStateWithParent()
        bin.setLockedState(false)
        guard isStarted, bin.syncStateWithParent(), !state.withLock(\.isOver) else {
            takeDown(bin)
            throw GStreamerError(.stateChange, "it cannot be started")
        }
    }

    /// At once for pictures and for the parent's state; its own threads end when they do.
    func remove(_ done: @escaping @Sendable () -> Void) {
        let bin = state.withLock { state in
            state.isOver = true
            return state.parts?.bin
        }
        bin?.setLockedState(true)
        work.async { [self] in
            if let bin = state.withLock(\.parts?.bin) { takeDown(bin) }
            done()
        }
    }

    private func takeDown(_ bin: Bin) {
        bin.setLockedState(true)
        bin.removeFromParent()
        // Lets go whoever waits to put a picture in.
        entry.push(Event.flushStart())
        bin.setState(.null)
        entry.setActive(false)
        exit.setActive(false)
    }

    /// Whether it ends with this message. A warning of our own elements is of pictures that are not what they are said to be.
    func fails(by message: Message) -> Bool {
        posted(message) && (message.kind == .error || message.sourceName.hasPrefix(Self.ownPrefix))
    }
    private static let ownPrefix = "decart-processor"

    private func posted(_ message: Message) -> Bool { state.withLock(\.parts?.bin).map { message.isFrom(within: $0) } ?? false }

    /// Pictures of a live input are never held up; any other loses none.
    func set(live: Bool) {
        let queue = state.withLock { state in
            state.isLive = live
            return state.parts?.queue
        }
        queue?.set("leaky", live ? "downstream" : "no")
    }

    // MARK: In (the input's thread)

    func take(_ frame: EncoderFrame, _ caps: Event) {
        guard let time = frame.runningTime, let buffer = frame.buffer.copyOfMetadata() else { return }
        buffer.pts = time
        buffer.dts = nil
        let (isReady, isFirst, changes) = state.withLock { state in
            guard state.parts != nil, !state.isOver else { return (false, false, false) }
            let before = state.caps
            state.caps = caps
            state.newest = time
            state.unanswered &+= 1
            return (true, before == nil, before !== caps)
        }
        guard isReady else { return }
        if changes { entry.push(caps) }
        if isFirst { entry.push(Event.timeSegment()) }
        // Of the picture before. An element that fails has said more in a message by then.
        switch entry.push(buffer) {
        case .ok, .flushing: break
        case .notNegotiated: handlers.onEnd(self, "it does not take these pictures, or gives none that can be converted")
        case .notLinked: handlers.onEnd(self, "its elements are not all linked")
        case .eos: handlers.onEnd(self, "it ended")
        case .error: handlers.onEnd(self, "it failed")
        }
    }

    /// No pictures come for a while, which is not its fault.
    func rest() { state.withLock { ($0.unanswered, $0.silence) = (0, 0) } }

    /// One more look: whether pictures have gone in and none has come out for too long. Looks are counted, and not time,
    /// in which the whole process may have stood still.
    func isSilent() -> Bool {
        state.withLock { state in
            state.silence = state.unanswered > Self.patience.pictures ? state.silence &+ 1 : 0
            return state.silence >= Self.patience.looks
        }
    }

    // MARK: Out (the processor's thread)

    private func keepSize(of caps: Caps) {
        guard let info = VideoInfo(caps: caps), let sized = state.withLock(\.parts?.sized),
            let wanted = try? Caps(InputChain.encodedCaps(width: info.width, height: info.height))
        else { return }
        sized.set("caps", caps: wanted)
    }

    private func cameOut(_ event: Event) {
        switch event.kind {
        case .segment: state.withLock { $0.segment = event }
        case .caps:
            guard let info = event.caps.flatMap(VideoInfo.init(caps:)) else { return }
            state.withLock { $0.size = (info.width, info.height) }
        case .eos: handlers.onEnd(self, "it ended")
        default: break
        }
    }

    private func cameOut(_ buffer: Buffer) {
        let frame = state.withLock { state -> EncoderFrame? in
            // A picture from the future would stand in the way of all that come until then.
            guard !state.isOver, let time = buffer.pts.flatMap({ state.segment?.runningTime(of: $0) }),
                let newest = state.newest, time <= newest
            else { return nil }
            (state.unanswered, state.silence) = (0, 0)
            return EncoderFrame(buffer: buffer, size: state.size, runningTime: time)
        }
        if let frame { handlers.onPicture(self, frame) }
    }
}
