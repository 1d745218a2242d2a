/// Ends a stream when the last closure that captures this object is released, as GStreamer does with the handlers of an
/// object that is finalized: an `AsyncStream` whose continuations have gone does not end by itself.
final class StreamEnd<Item: Sendable>: Sendable {
    let continuation: AsyncStream<Item>.Continuation

    init(_ continuation: AsyncStream<Item>.Continuation) { self.continuation = continuation }
    deinit { continuation.finish() }
}
