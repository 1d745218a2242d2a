import GStreamerKit
import Synchronization

/// Passes the samples of a source on to any number of readers, in the order in which the readers came, on the thread that
/// brings them: a program that has seen a frame of a track finds it in the outputs that it had added before.
final class SampleHub: Sendable {
    struct Reader: Sendable {
        let take: @Sendable (Sample) -> Void
        /// The source has ended; with the error if it failed.
        let end: @Sendable (DecartError?) -> Void
    }
    private struct State {
        var readers: [(id: Int, reader: Reader)] = []
        var next = 0
    }
    private let state = Mutex(State())
    /// Runs when the first reader comes.
    private let onFirstReader: @Sendable () -> Void

    init(onFirstReader: @escaping @Sendable () -> Void = {}) { self.onFirstReader = onFirstReader }

    func add(_ reader: Reader) -> Int {
        let (id, isFirst) = state.withLock { state -> (Int, Bool) in
            state.next += 1
            state.readers.append((state.next, reader))
            return (state.next, state.readers.count == 1)
        }
        if isFirst { onFirstReader() }
        return id
    }

    func remove(_ id: Int) { state.withLock { $0.readers.removeAll { $0.id == id } } }

    func deliver(_ sample: Sample) {
        for (_, reader) in state.withLock({ $0.readers }) { reader.take(sample) }
    }

    /// Ends the streams of all readers, which stay: the source may go on later.
    func end(_ error: DecartError? = nil) {
        for (_, reader) in state.withLock({ $0.readers }) { reader.end(error) }
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
