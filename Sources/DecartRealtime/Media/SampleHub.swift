import GStreamerKit
import Synchronization

/// Passes the samples of a source on to any number of readers, on the thread that brings them.
final class SampleHub: Sendable {
    struct Reader: Sendable {
        let take: @Sendable (Sample) -> Void
        /// The source has ended; with the error if it failed.
        let end: @Sendable (DecartError?) -> Void
    }
    private struct State {
        var readers: [Int: Reader] = [:]
        var next = 0
    }
    private let state = Mutex(State())
    /// Runs when the first reader comes.
    private let onFirstReader: @Sendable () -> Void

    init(onFirstReader: @escaping @Sendable () -> Void = {}) { self.onFirstReader = onFirstReader }

    func add(_ reader: Reader) -> Int {
        let (id, isFirst) = state.withLock { state -> (Int, Bool) in
            state.next += 1
            state.readers[state.next] = reader
            return (state.next, state.readers.count == 1)
        }
        if isFirst { onFirstReader() }
        return id
    }

    func remove(_ id: Int) { state.withLock { _ = $0.readers.removeValue(forKey: id) } }

    func deliver(_ sample: Sample) {
        for reader in state.withLock({ Array($0.readers.values) }) { reader.take(sample) }
    }

    /// Ends the streams of all readers, which stay: the source may go on later.
    func end(_ error: DecartError? = nil) {
        for reader in state.withLock({ Array($0.readers.values) }) { reader.end(error) }
    }

    /// The results of `make` for the samples that come from now on; a slow reader gets the newest.
    func stream<Item: Sendable>(newest: Int, _ make: @escaping @Sendable (Sample) -> Item?) -> AsyncStream<Item> {
        let (stream, continuation) = AsyncStream.makeStream(of: Item.self, bufferingPolicy: .bufferingNewest(newest))
        let id = add(
            Reader(take: { if let item = make($0) { continuation.yield(item) } }, end: { _ in continuation.finish() }))
        // The stream keeps the hub, and so a source that only the stream reads.
        continuation.onTermination = { [self] _ in remove(id) }
        return stream
    }
}
