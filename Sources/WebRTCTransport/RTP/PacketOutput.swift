import Dispatch
import GStreamerKit
internal import Synchronization

/// The received packets of a session on their way to the depayloader: the network thread delivers them, and a thread of
/// this pad pushes them, because a decoder must not keep the network thread. A receiver without a decoder needs no such
/// thread. Flow errors of the receiver are discarded: it may be added and removed while packets arrive.
// @unchecked: pads do their own locking.
final class PacketOutput: @unchecked Sendable {
    enum Item: Sendable {
        /// The caps of the packets behind it.
        case caps(Caps)
        case packet(Buffer)
        case event(Event)

        var isCaps: Bool { if case .caps = self { true } else { false } }
    }
    private struct State: Sendable {
        var items: [Item] = []
        var isRunning = false
        var isStopped = false
    }
    let pad = Pad(name: "packets_out", direction: .source)
    private let state = Mutex(State())
    /// A receiver that hangs must not fill the memory. The depayloader sees what is missing.
    private static let maximumItems = 4096
    private let work = DispatchSemaphore(value: 0)
    private let streamID: String
    /// The bin's pad for the receiver, which is linked and unlinked while packets arrive.
    private let exit: GhostPad
    private let hasThread: Bool
    /// Only for the thread that pushes.
    private var isAnnounced = false

    /// - Parameters:
    ///   - exit: gets `pad` as its target.
    ///   - hasThread: false: `deliver` pushes on the network thread, and the receiver must not block.
    init(streamID: String, exit: GhostPad, hasThread: Bool) {
        (self.streamID, self.exit, self.hasThread) = (streamID, exit, hasThread)
    }

    /// Call before `exit` is linked.
    /// - Parameter requestKeyframe: called on any thread.
    func start(requestKeyframe: @escaping @Sendable () -> Void) {
        pad.setEventFunction { event in
            if event.isForceKeyUnit { requestKeyframe() }
            return .handled(true)
        }
        pad.setQueryFunction { query in
            guard query.kind == .latency else { return .forward }
            // How late packets may be is known only behind the decoder.
            query.answerLatency(live: true, minimum: 0, maximum: nil)
            return .answered
        }
        pad.setActive(true)
    }

    /// Takes the items away. The streaming thread starts with the first of them. Network thread only.
    func deliver(_ items: inout [Item]) {
        guard !items.isEmpty else { return }
        defer { items.removeAll(keepingCapacity: true) }
        guard hasThread else {
            // Packets that come during `stop` find an inactive pad.
            if !state.withLock(\.isStopped) { push(items) }
            return
        }
        let (wakes, starts) = state.withLock { state in
            guard !state.isStopped else { return (false, false) }
            let starts = !state.isRunning
            // Started with the lock held, so that `stop` finds the thread. The process may have none left: then the session
            // misses the frames, and connects again.
            if starts { state.isRunning = pad.startTask { [weak self] in self?.turn() } }
            guard state.isRunning else {
                state.isStopped = true
                return (false, false)
            }
            let wakes = state.items.isEmpty
            state.items += state.items.count < Self.maximumItems ? items : items.filter(\.isCaps)
            return (wakes, starts)
        }
        if wakes || starts { work.signal() }
    }

    private func turn() {
        work.wait()
        let (items, isStopped) = state.withLock { state in
            defer { state.items = [] }
            return (state.items, state.isStopped)
        }
        // A task that waits here would keep the pad's stream lock, which `setActive` takes.
        if isStopped { return pad.pauseTask() }
        push(items)
    }

    private func push(_ items: [Item]) {
        for item in items {
            switch item {
            case .caps(let caps):
                if !isAnnounced { pad.push(Event.streamStart(id: streamID, groupID: Event.nextGroupID())) }
                pad.push(Event.caps(caps))
                if !isAnnounced { pad.push(Event.timeSegment()) }
                isAnnounced = true
            // As in `Pad.pushIfLinked`: `pad` itself is always linked.
            case .packet(let buffer): if exit.isLinked { _ = pad.push(buffer) }
            case .event(let event): pad.push(event)
            }
        }
    }

    /// Ends the streaming thread. The receiver must not keep it for long.
    func stop() {
        let wasRunning = state.withLock { state in
            defer { (state.isStopped, state.items) = (true, []) }
            return state.isRunning && !state.isStopped
        }
        work.signal()
        pad.setActive(false)
        if wasRunning { pad.stopTask() }
    }
}
