internal import CGStreamer

/// A borrowed query, valid only during the call that provides it.
public struct QueryRef {
    let pointer: UnsafeMutablePointer<GstQuery>
    init(_ pointer: UnsafeMutablePointer<GstQuery>) { self.pointer = pointer }

    /// The kinds of queries; `other` for those that have no name here.
    public enum Kind: Sendable, Equatable {
        case latency, caps, acceptCaps, seeking, position, duration, allocation, other
    }

    /// What the query asks.
    public var kind: Kind {
        switch pointer.pointee.type {
        case GST_QUERY_LATENCY: .latency
        case GST_QUERY_CAPS: .caps
        case GST_QUERY_ACCEPT_CAPS: .acceptCaps
        case GST_QUERY_SEEKING: .seeking
        case GST_QUERY_POSITION: .position
        case GST_QUERY_DURATION: .duration
        case GST_QUERY_ALLOCATION: .allocation
        default: .other
        }
    }

    /// Answers a query for the latency; `maximum` is nil if it has no upper bound.
    public func answerLatency(live: Bool, minimum: ClockTime, maximum: ClockTime?) {
        gst_query_set_latency(pointer, live ? 1 : 0, GstClockTime(minimum), GstClockTime(maximum ?? .noneValue))
    }

    /// Answers SEEKING: no seeks.
    public func answerNotSeekable() {
        var format = GST_FORMAT_TIME
        gst_query_parse_seeking(pointer, &format, nil, nil, nil)
        gst_query_set_seeking(pointer, format, 0, 0, -1)
    }

    /// - Returns: false if the query is for a position in another unit, such as bytes: it has no answer.
    public func answerPosition(_ time: ClockTime) -> Bool {
        var format = GST_FORMAT_UNDEFINED
        gst_query_parse_position(pointer, &format, nil)
        guard format == GST_FORMAT_TIME else { return false }
        gst_query_set_position(pointer, GST_FORMAT_TIME, gint64(clamping: time))
        return true
    }

    /// Answers an ALLOCATION query: frames may have strides of their own (GstVideoMeta).
    public func answerFramesMayHaveStrides() {
        gst_query_add_allocation_meta(pointer, gst_video_meta_api_get_type(), nil)
    }

    /// The format that ACCEPT_CAPS asks about; nil: another query.
    public var offeredCaps: Caps? {
        guard kind == .acceptCaps else { return nil }
        var caps: UnsafeMutablePointer<GstCaps>?
        gst_query_parse_accept_caps(pointer, &caps)
        return caps.map { Caps(borrowing: $0) }
    }

    /// Answers ACCEPT_CAPS.
    public func answerAcceptCaps(_ isAccepted: Bool) {
        gst_query_set_accept_caps_result(pointer, isAccepted ? 1 : 0)
    }

    /// The formats to which CAPS limits its answer; nil: no limit.
    public var capsFilter: Caps? {
        guard kind == .caps else { return nil }
        var filter: UnsafeMutablePointer<GstCaps>?
        gst_query_parse_caps(pointer, &filter)
        return filter.map { Caps(borrowing: $0) }
    }

    /// Answers CAPS.
    public func answerCaps(_ caps: Caps) {
        var filter: UnsafeMutablePointer<GstCaps>?
        gst_query_parse_caps(pointer, &filter)
        if let filter {
            let both = gst_caps_intersect_full(filter, caps.pointer, GST_CAPS_INTERSECT_FIRST)
            gst_query_set_caps_result(pointer, both)
            gst_caps_unref(both)
        } else {
            gst_query_set_caps_result(pointer, caps.pointer)
        }
    }
}
