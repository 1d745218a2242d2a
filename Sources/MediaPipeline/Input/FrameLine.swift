import Synchronization
import WebRTCTransport

/// Keeps the order of frames that come from several threads without holding a lock during delivery: while one thread
/// delivers, the others leave their frames to it. `Sources` is what the sources of the frames know of each other.
package final class FrameLine<Frame: Sendable, Sources: Sendable>: Sendable {
    /// The consumers by their media path. Each returns false for a frame that it leaves out.
    package typealias Consumers = [PathID: @Sendable (Frame) -> Bool]

    private struct State: Sendable {
        var sources: Sources
        var consumers: Consumers = [:]
        var waiting: [Frame] = []
        var isBusy = false

        mutating func next(_ left: Int) -> (Frame, Consumers)? {
            isBusy = left > 0 && !waiting.isEmpty
            return isBusy ? (waiting.removeFirst(), consumers) : nil
        }
    }
    private let state: Mutex<State>
    private let first: Sources
    /// Frames that may wait while a thread delivers.
    private static var capacity: Int { 16 }
    /// Frames that a thread delivers in a row; then it returns to its own work and the next caller delivers the rest.
    private static var share: Int { 8 }

    package init(_ sources: Sources) {
        first = sources
        state = Mutex(State(sources: sources))
    }

    /// Adds a consumer, or removes that of a path.
    package func set(_ consumer: (@Sendable (Frame) -> Bool)?, path: PathID) {
        // The former one is released outside of the lock.
        _ = state.withLock { exchange(&$0.consumers[path], with: consumer) }
    }

    /// Changes what the sources know. `body` runs with the lock held, so it must not call out.
    package func change(_ body: (inout Sources) -> Void) { state.withLock { body(&$0.sources) } }

    /// - Parameters:
    ///   - make: returns the next frame, if there is one. Runs with the lock held, so it must not call out.
    ///   - deliver: called with one frame after another, on one thread at a time.
    /// - Returns: false if the frame is dropped because too many wait.
    package func pass(_ make: (inout Sources) -> Frame?, deliver: (Frame, Consumers) -> Void) -> Bool {
        var left = Self.share
        var (isTaken, turn) = state.withLock { state -> (Bool, (Frame, Consumers)?) in
            guard let frame = make(&state.sources) else { return (true, nil) }
            guard state.waiting.count < Self.capacity else { return (false, nil) }
            state.waiting.append(frame)
            return (true, state.isBusy ? nil : state.next(left))
        }
        while let (frame, consumers) = turn {
            deliver(frame, consumers)
            left -= 1
            turn = state.withLock { $0.next(left) }
        }
        return isTaken
    }

    /// Drops the frames that wait for the next caller, and what the sources know.
    package func clear() {
        // Released outside of the lock.
        _ = state.withLock { state in
            state.sources = first
            return exchange(&state.waiting, with: [])
        }
    }
}
