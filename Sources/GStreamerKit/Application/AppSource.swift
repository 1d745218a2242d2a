/// The element `appsrc`: data of the application for a pipeline.
public struct AppSource: Sendable {
    /// The `appsrc` itself, for properties that have no name here.
    public let element: Element

    /// Fails if the element is not an `appsrc`.
    public init(_ element: Element) throws(GStreamerError) {
        guard element.factoryName == "appsrc" else {
            throw GStreamerError(.badDescription, "the element \(element.name) is not an appsrc")
        }
        self.element = element
    }

    /// Sets the element up for a live source: buffers get the time of their push, and wait in a queue of `limit` buffers
    /// that drops the oldest.
    public func beLive(limit: Int = 2) {
        element.set("is-live", true)
        element.set("format", "time")
        element.set("do-timestamp", true)
        element.set("max-buffers", limit)
        element.set("max-bytes", 0)
        element.set("leaky-type", "downstream")
    }

    /// The caps of the buffers that follow.
    public func set(_ caps: Caps) { element.set("caps", caps: caps) }

    /// Queues a buffer. `flushing` if the element does not run. It returns at once, unless the property `block` is set.
    @discardableResult
    public func push(_ buffer: Buffer) -> FlowReturn {
        FlowReturn(rawValue: Int32(clamping: element.emit("push-buffer", [GValueBox(buffer: buffer)])?.int ?? -5))
            ?? .ok
    }

    /// Queues a buffer after its caps, if these differ from those before.
    @discardableResult
    public func push(_ sample: Sample) -> FlowReturn {
        FlowReturn(rawValue: Int32(clamping: element.emit("push-sample", [GValueBox(sample: sample)])?.int ?? -5))
            ?? .ok
    }

    /// EOS follows the queued buffers.
    public func end() { element.emit("end-of-stream") }
}

extension Bin {
    /// The `appsrc` of this name.
    public func appSource(named name: String) throws(GStreamerError) -> AppSource {
        guard let element = child(named: name) else {
            throw GStreamerError(.badDescription, "there is no element named \(name)")
        }
        return try AppSource(element)
    }
}
