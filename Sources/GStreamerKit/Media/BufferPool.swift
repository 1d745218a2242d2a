internal import CGStreamer

/// Buffers of one size that are used again, because allocating megabytes for each frame costs page faults. A buffer
/// returns when its last reference goes; one whose memory is still shared then is freed instead.
// @unchecked: GstBufferPool is thread-safe.
public final class BufferPool: @unchecked Sendable {
    private let pool: UnsafeMutablePointer<GstBufferPool>

    /// A pool of buffers of so many bytes, which is active at once.
    public init?(size: Int) {
        guard size > 0, let size = UInt32(exactly: size), let pool = gst_buffer_pool_new() else { return nil }
        self.pool = pool
        var parameters = GstAllocationParams()
        gst_allocation_params_init(&parameters)
        parameters.align = 31
        let configuration = gst_buffer_pool_get_config(pool)
        gst_buffer_pool_config_set_params(configuration, nil, size, 0, 0)
        gst_buffer_pool_config_set_allocator(configuration, nil, &parameters)
        guard gst_buffer_pool_set_config(pool, configuration) != 0, gst_buffer_pool_set_active(pool, 1) != 0 else {
            gst_object_unref(pool)
            return nil
        }
    }

    deinit {
        // Buffers that are in use keep the pool until they return.
        gst_buffer_pool_set_active(pool, 0)
        gst_object_unref(pool)
    }

    /// nil without memory.
    public func next() -> Buffer? {
        var buffer: UnsafeMutablePointer<GstBuffer>?
        guard gst_buffer_pool_acquire_buffer(pool, &buffer, nil) == GST_FLOW_OK else { return nil }
        return buffer.map(Buffer.init(taking:))
    }
}
