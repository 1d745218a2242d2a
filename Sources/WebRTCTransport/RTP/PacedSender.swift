package import EventLoopThreads
import ICE
package import RTP
internal import Synchronization

/// Sends the packets of a stream through a `SendPacer`: at once on the caller's thread, or later on the network thread.
/// Packets leave one at a time, in the order of the pacer.
// @unchecked: `send` and `flush` are called by one thread at a time, that which has set `isSending`.
package final class PacedSender: @unchecked Sendable {
    private struct State {
        var pacer: SendPacer
        /// A thread is between its first `send` and the end of `flush`.
        var isSending = false
        /// A timer will look for packets.
        var isScheduled = false
        var isStopped = false
    }
    private let state: Mutex<State>
    private let network: NetworkThread
    private let send: (UnsafeRawBufferPointer) -> Void
    private let pad: (UnsafeRawBufferPointer) -> Void
    private let flush: () -> Void

    /// - Parameters:
    ///   - send: takes a packet that may leave.
    ///   - pad: takes a packet of `fill`.
    ///   - flush: called after the last of the packets that may leave together.
    package init(
        bitrate: Int, network: NetworkThread, send: @escaping (UnsafeRawBufferPointer) -> Void,
        pad: @escaping (UnsafeRawBufferPointer) -> Void = { _ in }, flush: @escaping () -> Void
    ) {
        state = Mutex(State(pacer: SendPacer(bitrate: bitrate)))
        (self.network, self.send, self.pad, self.flush) = (network, send, pad, flush)
    }

    package var delays: (total: Duration, keyframe: Duration?) {
        state.withLock { ($0.pacer.totalDelay, $0.pacer.keyframeDelay) }
    }

    package func pace(bitrate: Int) { state.withLock { $0.pacer.pace(bitrate: bitrate, now: MonotonicTime.now) } }

    /// Drops the packets that wait, and later ones.
    package func stop() {
        state.withLock { state in
            state.isStopped = true
            state.pacer.clear()
        }
    }

    /// - Parameter forEach: calls its argument with each of the packets that may leave together.
    package func offer(_ forEach: (@escaping (UnsafeRawBufferPointer, SendPacer.Kind) -> Void) -> Void) {
        var sends = false
        forEach { [self] packet, kind in
            let mayLeave = state.withLock { state in
                guard !state.isStopped,
                    state.pacer.offer(packet, kind, mustWait: state.isSending && !sends, now: MonotonicTime.now)
                else { return false }
                state.isSending = true
                return true
            }
            guard mayLeave else { return }
            sends = true
            send(packet)
        }
        if sends { finish() }
        schedule()
    }

    /// Sends padding beside the packets of the stream, unless another thread is sending or packets wait: those fill the path
    /// as well, and padding, which repeats the newest of them, would overtake it.
    /// - Parameter next: the next packet of padding; nil: no more.
    package func fill(_ next: () -> [UInt8]?) {
        let mayLeave = state.withLock { !$0.isStopped && !$0.isSending && !exchange(&$0.isSending, with: true) }
        guard mayLeave else { return }
        while state.withLock(\.pacer.isEmpty), let packet = next() { packet.withUnsafeBytes(pad) }
        finish()
        schedule()
    }

    private func finish() {
        flush()
        state.withLock { $0.isSending = false }
    }

    /// Looks for packets again when the next one may leave. A thread that sends calls this afterwards.
    private func schedule() {
        let wait = state.withLock { state -> Duration? in
            guard !state.isScheduled, !state.isSending, let wait = state.pacer.wait(now: MonotonicTime.now) else {
                return nil
            }
            state.isScheduled = true
            return wait
        }
        if let wait { network.schedule(after: wait) { [weak self] in self?.drain() } }
    }

    private func drain() {
        state.withLock { $0.isScheduled = false }
        var sends = false
        while let packet = state.withLock({ state -> [UInt8]? in
            guard sends || !state.isSending, let packet = state.pacer.next(now: MonotonicTime.now) else { return nil }
            state.isSending = true
            return packet
        }) {
            sends = true
            packet.withUnsafeBytes(send)
        }
        if sends { finish() }
        schedule()
    }
}
