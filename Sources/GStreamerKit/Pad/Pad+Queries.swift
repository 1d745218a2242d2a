internal import CGStreamer

extension Pad {
    /// True if the peer downstream takes frames of these caps with strides of their own (GstVideoMeta).
    package func peerTakesStrides(_ caps: Caps) -> Bool {
        guard let query = gst_query_new_allocation(caps.pointer, 0) else { return false }
        defer { decart_mini_object_unref(query) }
        return gst_pad_peer_query(pad, query) != 0
            && gst_query_find_allocation_meta(query, gst_video_meta_api_get_type(), nil) != 0
    }
}
