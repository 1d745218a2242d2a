internal import CGStreamer

// Queries of a pad to its peer.
extension Pad {
    /// The peer's current position in stream time; nil if it does not know.
    package func queryPeerPosition() -> ClockTime? {
        var position: gint64 = -1
        guard gst_pad_peer_query_position(pad, GST_FORMAT_TIME, &position) != 0, position >= 0 else { return nil }
        return ClockTime(position)
    }

    package func queryPeerDuration() -> ClockTime? {
        var duration: gint64 = -1
        guard gst_pad_peer_query_duration(pad, GST_FORMAT_TIME, &duration) != 0, duration >= 0 else { return nil }
        return ClockTime(duration)
    }

    /// True if the peer supports seeking in TIME format; nil if it does not answer.
    package func queryPeerSeekable() -> Bool? {
        guard let query = gst_query_new_seeking(GST_FORMAT_TIME) else { return nil }
        defer { decart_mini_object_unref(query) }
        guard gst_pad_peer_query(pad, query) != 0 else { return nil }
        var seekable: gboolean = 0
        gst_query_parse_seeking(query, nil, &seekable, nil, nil)
        return seekable != 0
    }

    /// True if the peer downstream takes frames of these caps with strides of their own (GstVideoMeta).
    package func peerTakesStrides(_ caps: Caps) -> Bool {
        guard let query = gst_query_new_allocation(caps.pointer, 0) else { return false }
        defer { decart_mini_object_unref(query) }
        return gst_pad_peer_query(pad, query) != 0
            && gst_query_find_allocation_meta(query, gst_video_meta_api_get_type(), nil) != 0
    }
}
