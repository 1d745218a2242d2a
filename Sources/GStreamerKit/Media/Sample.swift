internal import CGStreamer

/// A buffer with the caps that describe it, as `appsink` gives them and `appsrc` takes them.
public struct Sample: Sendable {
    /// The data. It may be shared with other threads: read it, and write only to a copy (`Buffer.madeWritable`).
    public let buffer: Buffer
    /// The format of the data; nil if the stream has none.
    public let caps: Caps?

    /// A buffer with its format.
    public init(_ buffer: Buffer, caps: Caps?) { (self.buffer, self.caps) = (buffer, caps) }
}

extension GValueBox {
    /// The value of a GstSample.
    public convenience init(sample: Sample) {
        self.init(type: gst_sample_get_type())
        g_value_take_boxed(
            storage,
            gst_sample_new(sample.buffer.pointer, sample.caps?.pointer, nil, nil).map { UnsafeRawPointer($0) })
    }

    /// The content of a GstSample; nil for another type, and for a sample without a buffer.
    public var sample: Sample? {
        guard holds(gst_sample_get_type()), let found = g_value_get_boxed(storage) else { return nil }
        let sample = OpaquePointer(found)
        return gst_sample_get_buffer(sample).map {
            Sample(Buffer(borrowing: $0), caps: gst_sample_get_caps(sample).map { Caps(borrowing: $0) })
        }
    }
}
