internal import CGStreamer

extension Pad {
    /// True if the peer downstream takes frames of these caps with strides of their own (GstVideoMeta). The query is
    /// serialized: a queue downstream answers it with its own thread, so call it only after a push that succeeded.
    public func peerTakesStrides(_ caps: Caps) -> Bool {
        guard let query = gst_query_new_allocation(caps.pointer, 0) else { return false }
        defer { kit_mini_object_unref(query) }
        return gst_pad_peer_query(pad, query) != 0
            && gst_query_find_allocation_meta(query, gst_video_meta_api_get_type(), nil) != 0
    }

    /// Passes a query on to the peer.
    public func ask(_ query: QueryRef) -> QueryHandling {
        gst_pad_peer_query(pad, query.pointer) != 0 ? .answered : .refused
    }

    /// Removes GstVideoCropMeta from the answers to ALLOCATION queries: upstream is to send frames without a margin.
    package func offerNoCropping() {
        gst_pad_add_probe(
            pad,
            GstPadProbeType(GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM.rawValue | GST_PAD_PROBE_TYPE_PULL.rawValue),
            { _, info, _ in
                guard let query = info?.pointee.data?.assumingMemoryBound(to: GstQuery.self),
                    query.pointee.type == GST_QUERY_ALLOCATION
                else { return GST_PAD_PROBE_OK }
                var index: guint = 0
                while gst_query_find_allocation_meta(query, gst_video_crop_meta_api_get_type(), &index) != 0 {
                    gst_query_remove_nth_allocation_meta(query, index)
                }
                return GST_PAD_PROBE_OK
            }, nil, nil)
    }

    /// For the sink pad of a queue whose consumer may stand still: a serialized query waits for the queue's thread. ALLOCATION
    /// has an answer without offers, and others are refused.
    package func answerSerializedQueries() {
        gst_pad_add_probe(
            pad,
            GstPadProbeType(GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM.rawValue | GST_PAD_PROBE_TYPE_PUSH.rawValue),
            { _, info, _ in
                guard let query = info?.pointee.data?.assumingMemoryBound(to: GstQuery.self),
                    gst_query_type_get_flags(query.pointee.type).rawValue & GST_QUERY_TYPE_SERIALIZED.rawValue != 0
                else { return GST_PAD_PROBE_OK }
                return query.pointee.type == GST_QUERY_ALLOCATION ? GST_PAD_PROBE_HANDLED : GST_PAD_PROBE_DROP
            }, nil, nil)
    }

    // MARK: A stream that goes on behind a flush

    /// A flush has taken the SEGMENT event from the peer, and from this pad too if it came from downstream. GStreamer
    /// repeats the events of the stream to what is linked or restarted, but not this one behind a flush.
    package var lacksSegment: Bool {
        guard hasSegment(pad) else { return true }
        guard var peer = gst_pad_get_peer(pad) else { return false }
        defer { gst_object_unref(peer) }
        // A ghost pad keeps the events for the pad that is behind it.
        while let other = behindGhost(peer) {
            gst_object_unref(peer)
            peer = other
        }
        return !hasSegment(peer)
    }

    /// Pushes the events of the stream that has come to `origin` once more.
    package func repeatStream(of origin: Pad) {
        for kind in [GST_EVENT_STREAM_START, GST_EVENT_CAPS, GST_EVENT_SEGMENT, GST_EVENT_TAG] {
            var index: guint = 0
            while let event = gst_pad_get_sticky_event(origin.pad, kind, index) {
                // A copy: GStreamer takes the same event for one that the peer has.
                gst_pad_push_event(pad, gst_event_copy(event))
                kit_mini_object_unref(event)
                guard kind == GST_EVENT_TAG else { break }
                index += 1
            }
        }
    }
}

private func hasSegment(_ pad: UnsafeMutablePointer<GstPad>) -> Bool {
    guard let event = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0) else { return false }
    kit_mini_object_unref(event)
    return true
}

/// The pad to which a ghost pad is linked outside of its bin, with a reference; nil for any other pad.
private func behindGhost(_ pad: UnsafeMutablePointer<GstPad>) -> UnsafeMutablePointer<GstPad>? {
    guard kit_instance_is(pad, gst_proxy_pad_get_type()) != 0 else { return nil }
    let proxy = UnsafeMutableRawPointer(pad).assumingMemoryBound(to: GstProxyPad.self)
    guard let other = gst_proxy_pad_get_internal(proxy) else { return nil }
    defer { gst_object_unref(other) }
    return gst_pad_get_peer(UnsafeMutableRawPointer(other).assumingMemoryBound(to: GstPad.self))
}
