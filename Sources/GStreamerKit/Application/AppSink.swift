/// The element `appsink`: the data of a pipeline for the application.
public struct AppSink: Sendable {
    /// The `appsink` itself, for properties that have no name here.
    public let element: Element

    /// Fails if the element is not an `appsink`.
    public init(_ element: Element) throws(GStreamerError) {
        guard element.factoryName == "appsink" else {
            throw GStreamerError(.badDescription, "the element \(element.name) is not an appsink")
        }
        self.element = element
    }

    /// Calls `handler` for each sample, on the streaming thread, which waits for it. The element retains the handler, so
    /// it must not capture the pipeline.
    /// - Returns: the handler, for `GObject.disconnect`.
    @discardableResult
    public func onSample(_ handler: @escaping @Sendable (Sample) -> Void) -> SignalHandler {
        element.set("emit-signals", true)
        return element.connect("new-sample") { [own = element.unowned] _ in
            if let sample = own.emit("pull-sample")?.sample { handler(sample) }
            return GValueBox(enumeration: "GstFlowReturn", 0)
        }
    }

    /// The samples that arrive from now on. The stream ends at EOS, and with the pipeline. It never blocks the pipeline:
    /// a reader that is slower gets the newest samples only.
    /// - Parameter newest: the number of samples that wait for the reader at most.
    public func samples(newest: Int = 2) -> AsyncStream<Sample> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Sample.self, bufferingPolicy: .bufferingNewest(max(1, newest)))
        let end = StreamEnd(continuation)
        let samples = onSample { [end] in end.continuation.yield($0) }
        let eos = element.connect("eos") { _ in
            continuation.finish()
            return nil
        }
        continuation.onTermination = { [weak element] reason in
            // The handlers of an element that is finalized have gone.
            guard case .cancelled = reason, let element else { return }
            element.disconnect(samples)
            element.disconnect(eos)
        }
        return stream
    }
}

extension Bin {
    /// The `appsink` of this name.
    public func appSink(named name: String) throws(GStreamerError) -> AppSink {
        guard let element = child(named: name) else {
            throw GStreamerError(.badDescription, "there is no element named \(name)")
        }
        return try AppSink(element)
    }
}
