extension Bus {
    /// The messages that are posted from now on, in order. The stream ends when the bus is finalized, with its pipeline,
    /// or when another stream is made: a bus has one reader. It keeps all messages until they are read, and does not
    /// retain the pipeline. After a reader was cancelled, messages are dropped.
    public var messages: AsyncStream<Message> {
        let (stream, continuation) = AsyncStream.makeStream(of: Message.self)
        let end = StreamEnd(continuation)
        continuation.onTermination = { [weak self] reason in
            if case .cancelled = reason { self?.setSyncHandler { _ in } }
        }
        setSyncHandler { [end] message in end.continuation.yield(message) }
        return stream
    }
}
