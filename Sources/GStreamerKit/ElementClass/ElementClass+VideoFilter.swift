// The virtual methods of GstBaseTransform and GstVideoFilter, for classes with the parent `.videoFilter`.
//
// GStreamer chooses once per caps between in-place and copying. Both are wrong half of the time: copying a buffer with
// a single reference costs as much as the filter itself, and so does making a shared buffer writable first. This
// implementation chooses per buffer, in prepare_output_buffer: a writable input buffer is also the output buffer.
internal import CGStreamer

private typealias Transform = UnsafeMutablePointer<GstBaseTransform>

func installVideoFilter(_ pointer: UnsafeMutableRawPointer) {
    let transform = pointer.assumingMemoryBound(to: GstBaseTransformClass.self)
    transform.pointee.transform_ip_on_passthrough = 0
    // Only the streaming thread changes passthrough mode, so a property set during a frame takes effect at the next one.
    transform.pointee.before_transform = { transform, _ in
        guard let transform, let found = filterImplementation(of: transform) else { return }
        let passes = !found.changesFrames()
        guard passes != (gst_base_transform_is_passthrough(transform) != 0) else { return }
        gst_base_transform_set_passthrough(transform, passes ? 1 : 0)
        // Renegotiates the allocation before this frame: the buffer pool is needed only when frames are copied.
        gst_base_transform_reconfigure_src(transform)
    }
    installAllocation(transform)
    installEvents(transform)
    transform.pointee.transform = { transform, input, output in
        guard let transform, let input, let output, let parent = parent(of: transform) else { return GST_FLOW_ERROR }
        if let (bytes, needed) = shortage(of: input, transform) {
            filterImplementation(of: transform)?.dropped(bytes: bytes, needed: needed)
            return kit_flow_dropped()
        }
        let inPlace = input == output || hasOwnSize(output, transform)
        let result =
            inPlace ? parent.transform_ip?(transform, output) : parent.transform?(transform, input, output)
        guard result == GST_FLOW_OK else { return result ?? GST_FLOW_ERROR }
        filterImplementation(of: transform)?.transformed(BufferRef(output), size: frameSize(output, transform))
        return GST_FLOW_OK
    }
    // Copies the metas that would also stay on the buffer in place: all except those that describe its memory.
    transform.pointee.transform_meta = { _, _, meta, _ in
        guard let info = meta?.pointee.info, info.pointee.transform_func != nil else { return 0 }
        let bound = MetaTag.memory.isOn(info.pointee.api) || MetaTag.memoryReference.isOn(info.pointee.api)
        return bound ? 0 : 1
    }
    let filter = pointer.assumingMemoryBound(to: GstVideoFilterClass.self)
    filter.pointee.set_info = { filter, _, info, _, _ in
        guard let filter, let info, let found = filterImplementation(of: filter) else { return 0 }
        found.negotiated(VideoInfo(info.pointee))
        filter.withMemoryRebound(to: GstBaseTransform.self, capacity: 1) {
            gst_base_transform_set_passthrough($0, found.changesFrames() ? 0 : 1)
        }
        return 1
    }
    filter.pointee.transform_frame = { transformFrame(of: $0, $1, into: $2) }
    filter.pointee.transform_frame_ip = { transformFrame(of: $0, $1, into: $1) }
}

private func installAllocation(_ transform: UnsafeMutablePointer<GstBaseTransformClass>) {
    // Forwards downstream's answer even when frames are changed. Upstream's buffers are passed on in either mode, so
    // their strides and metas must always suit downstream and must not depend on a property.
    transform.pointee.propose_allocation = { transform, _, query in
        guard let transform, let query,
            let isAnswered = parent(of: transform)?.propose_allocation?(transform, nil, query), isAnswered != 0
        else { return 0 }
        alignFrames(query)
        return 1
    }
    transform.pointee.decide_allocation = { transform, query in
        guard let transform, let query else { return 0 }
        alignFrames(query)
        return parent(of: transform)?.decide_allocation?(transform, query) ?? 0
    }
    transform.pointee.prepare_output_buffer = { transform, input, output in
        guard let transform, let input, let output else { return GST_FLOW_ERROR }
        if gst_base_transform_is_passthrough(transform) == 0 {
            if kit_buffer_is_writable(input) != 0 {
                output.pointee = input
                return GST_FLOW_OK
            }
            // A buffer larger than its caps (it has a crop meta) is copied whole, with the area around the crop.
            if hasOwnSize(input, transform) {
                output.pointee = gst_buffer_copy_deep(input)
                return output.pointee == nil ? GST_FLOW_ERROR : GST_FLOW_OK
            }
        }
        return parent(of: transform)?.prepare_output_buffer?(transform, input, output) ?? GST_FLOW_ERROR
    }
}

private func installEvents(_ transform: UnsafeMutablePointer<GstBaseTransformClass>) {
    transform.pointee.sink_event = { transform, event in
        guard let transform, let event else { return 0 }
        filterImplementation(of: transform)?.downstream(Event(borrowing: event))
        return parent(of: transform)?.sink_event?(transform, event) ?? 0
    }
    transform.pointee.src_event = { transform, event in
        guard let transform, let event else { return 0 }
        let owned = Event(taking: event)
        let passed = filterImplementation(of: transform)?.upstream(owned) ?? owned
        return parent(of: transform)?.src_event?(transform, passed.copyReference()) ?? 0
    }
}

private func transformFrame(
    of filter: UnsafeMutablePointer<GstVideoFilter>?, _ source: UnsafeMutablePointer<GstVideoFrame>?,
    into target: UnsafeMutablePointer<GstVideoFrame>?
) -> GstFlowReturn {
    guard let filter, let source, let target, let found = filterImplementation(of: filter) else {
        return GST_FLOW_ERROR
    }
    return found.transform(VideoFrameRef(source), into: VideoFrameRef(target)) ? GST_FLOW_OK : kit_flow_dropped()
}

private func parent(of transform: Transform) -> GstBaseTransformClass? {
    parentClass(of: UnsafeMutableRawPointer(transform), as: GstBaseTransformClass.self)?.pointee
}

private func videoInfo(of transform: Transform) -> GstVideoInfo {
    transform.withMemoryRebound(to: GstVideoFilter.self, capacity: 1) { $0.pointee.in_info }
}

/// Aligns frames to cache lines (GStreamer's default is 8 bytes), so that vector loads and stores do not cross them.
private func alignFrames(_ query: UnsafeMutablePointer<GstQuery>) {
    var parameters = GstAllocationParams()
    gst_allocation_params_init(&parameters)
    var allocator: UnsafeMutablePointer<GstAllocator>?
    let isGiven = gst_query_get_n_allocation_params(query) > 0
    if isGiven { gst_query_parse_nth_allocation_param(query, 0, &allocator, &parameters) }
    parameters.align |= 63
    if isGiven {
        gst_query_set_nth_allocation_param(query, 0, allocator, &parameters)
    } else {
        gst_query_add_allocation_param(query, nil, &parameters)
    }
    if let allocator { gst_object_unref(allocator) }
}

private func frameSize(_ buffer: UnsafeMutablePointer<GstBuffer>, _ transform: Transform) -> (width: Int, height: Int) {
    if let meta = gst_buffer_get_video_meta(buffer) { return (Int(meta.pointee.width), Int(meta.pointee.height)) }
    let info = videoInfo(of: transform)
    return (Int(info.width), Int(info.height))
}

/// The parent class would warn of each such frame as of a fault of GStreamer's, and pass it on.
private func shortage(
    of buffer: UnsafeMutablePointer<GstBuffer>, _ transform: Transform
) -> (bytes: Int, needed: Int)? {
    // From the bottom up: the first row is the last one in memory.
    if let stride = gst_buffer_get_video_meta(buffer)?.pointee.stride,
        [stride.0, stride.1, stride.2, stride.3].contains(where: { $0 < 0 })
    {
        return nil
    }
    return VideoInfo(videoInfo(of: transform)).shortage(of: Buffer(borrowing: buffer))
}

private func hasOwnSize(_ buffer: UnsafeMutablePointer<GstBuffer>, _ transform: Transform) -> Bool {
    let info = videoInfo(of: transform)
    return frameSize(buffer, transform) != (Int(info.width), Int(info.height))
}

extension ElementHandle {
    /// Disables QoS, for a filter so cheap that dropping frames would save nothing.
    public func disableQoS() {
        gst_base_transform_set_qos_enabled(raw.assumingMemoryBound(to: GstBaseTransform.self), 0)
    }
}

extension Element {
    /// Makes an element whose class derives from GstBaseTransform hand buffers on as they are; does nothing to others.
    public func setPassthrough(_ isOn: Bool) {
        guard kit_instance_is(raw, gst_base_transform_get_type()) != 0 else { return }
        gst_base_transform_set_passthrough(raw.assumingMemoryBound(to: GstBaseTransform.self), isOn ? 1 : 0)
    }
}
