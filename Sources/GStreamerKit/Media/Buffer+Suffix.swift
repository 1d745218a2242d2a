// The end of a buffer, and bytes that follow a frame through codecs and converters.
internal import CGStreamer

/// A custom meta without tags that holds bytes. Encoders, decoders and converters copy it from their input to their output.
package struct ByteMeta: Sendable {
    fileprivate let name: String

    /// - Parameter name: under which the meta is registered, once in the process.
    package init(name: String) {
        self.name = name
        kit_attachment_register(name)
    }
}

extension Buffer {
    /// Set it only on a buffer that nothing else references.
    package subscript(meta: ByteMeta) -> [UInt8]? {
        get {
            guard let pointer, let bytes = kit_buffer_attachment(pointer, meta.name) else { return nil }
            defer { g_bytes_unref(bytes) }
            var size: gsize = 0
            let data = g_bytes_get_data(bytes, &size)
            return Array(UnsafeRawBufferPointer(start: data, count: Int(size)))
        }
        set {
            guard let pointer else { return }
            kit_buffer_detach(pointer, meta.name)
            newValue?.withUnsafeBytes {
                kit_buffer_attach(pointer, meta.name, $0.baseAddress, gsize($0.count))
            }
        }
    }

    /// The last bytes; fewer if the buffer is shorter.
    package func suffix(_ count: Int) -> [UInt8] {
        withSuffix(count) { Array($0) }
    }

    /// Lends the last bytes, without the array of `suffix`.
    package func withSuffix<Result>(_ count: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let count = min(max(count, 0), size)
        return withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { bytes in
            guard let pointer else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
            let extracted = gst_buffer_extract(pointer, gsize(size - count), bytes.baseAddress, gsize(count))
            return body(UnsafeRawBufferPointer(rebasing: bytes[..<Int(extracted)]))
        }
    }

    /// A copy without the last bytes, with the same metadata; it shares the memory.
    package func droppingLast(_ count: Int) -> Buffer? {
        guard let pointer, count >= 0, count <= size else { return nil }
        return kit_buffer_prefix(pointer, gsize(size - count)).map(Buffer.init(taking:))
    }

    /// A copy with further bytes at the end; it shares the memory of the others.
    package func appending(_ bytes: [UInt8]) -> Buffer? {
        guard let copy = copyOfMetadata(), let pointer = copy.pointer,
            let memory = gst_allocator_alloc(nil, gsize(bytes.count), nil)
        else { return nil }
        gst_buffer_append_memory(pointer, memory)
        let start = gst_buffer_get_size(pointer) - gsize(bytes.count)
        bytes.withUnsafeBytes { _ = gst_buffer_fill(pointer, start, $0.baseAddress, gsize($0.count)) }
        return copy
    }

    /// Adds a GstReferenceTimestampMeta with the caps `timestamp/x-unix`: nanoseconds since 1970. Call it only on a
    /// buffer that nothing else references.
    package func addUnixTime(_ time: ClockTime) {
        guard let pointer, let caps = try? Caps("timestamp/x-unix") else { return }
        gst_buffer_add_reference_timestamp_meta(pointer, caps.pointer, GstClockTime(time), .max)
    }

    /// The time of `addUnixTime`.
    package var unixTime: ClockTime? {
        guard let pointer, let caps = try? Caps("timestamp/x-unix") else { return nil }
        return gst_buffer_get_reference_timestamp_meta(pointer, caps.pointer).map { ClockTime($0.pointee.timestamp) }
    }
}

/// Time of day since 1970, in ns unless the name says otherwise.
package enum UnixClock {
    package static var now: ClockTime { ClockTime(clamping: g_get_real_time()) &* 1000 }
    package static var seconds: Double { Double(now) / 1e9 }
}
