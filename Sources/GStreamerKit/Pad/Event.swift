internal import CGStreamer

/// An event between pads, with one reference.
// @unchecked: events are immutable once made and reference counting is atomic.
public final class Event: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<GstEvent>

    /// The kinds of events; `other` for those that have no name here.
    public enum Kind: Sendable, Equatable {
        case streamStart, caps, segment, tag, eos, gap, flushStart, flushStop, latency, reconfigure, qos, seek
        case customDownstream, customUpstream, navigation, other

        init(_ raw: GstEventType) {
            switch raw {
            case GST_EVENT_STREAM_START: self = .streamStart
            case GST_EVENT_CAPS: self = .caps
            case GST_EVENT_SEGMENT: self = .segment
            case GST_EVENT_TAG: self = .tag
            case GST_EVENT_EOS: self = .eos
            case GST_EVENT_GAP: self = .gap
            case GST_EVENT_FLUSH_START: self = .flushStart
            case GST_EVENT_FLUSH_STOP: self = .flushStop
            case GST_EVENT_LATENCY: self = .latency
            case GST_EVENT_RECONFIGURE: self = .reconfigure
            case GST_EVENT_QOS: self = .qos
            case GST_EVENT_SEEK: self = .seek
            case GST_EVENT_NAVIGATION: self = .navigation
            case GST_EVENT_CUSTOM_DOWNSTREAM: self = .customDownstream
            case GST_EVENT_CUSTOM_UPSTREAM: self = .customUpstream
            default: self = .other
            }
        }
    }

    init(taking pointer: UnsafeMutablePointer<GstEvent>) { self.pointer = pointer }
    init(borrowing pointer: UnsafeMutablePointer<GstEvent>) {
        self.pointer = kit_mini_object_ref(pointer).assumingMemoryBound(to: GstEvent.self)
    }
    deinit { kit_mini_object_unref(pointer) }

    /// Adds a reference, for a C call that takes ownership.
    func copyReference() -> UnsafeMutablePointer<GstEvent> {
        kit_mini_object_ref(pointer).assumingMemoryBound(to: GstEvent.self)
    }

    /// What the event says.
    public var kind: Kind { Kind(pointer.pointee.type) }

    /// Begins a stream. Streams that belong together have one group ID.
    public static func streamStart(id: String, groupID: UInt32) -> Event {
        let event = gst_event_new_stream_start(id)
        gst_event_set_group_id(event, groupID)
        return Event(taking: event!)
    }
    /// A group ID that nothing in this process has.
    public static func nextGroupID() -> UInt32 { gst_util_group_id_next() }
    /// Announces the format of the buffers that follow.
    public static func caps(_ caps: Caps) -> Event { Event(taking: gst_event_new_caps(caps.pointer)) }
    /// Begins a segment of time from 0 on, with rate 1.
    public static func timeSegment() -> Event {
        var segment = GstSegment()
        gst_segment_init(&segment, GST_FORMAT_TIME)
        return Event(taking: gst_event_new_segment(&segment))
    }
    /// Ends the stream.
    public static func eos() -> Event { Event(taking: gst_event_new_eos()) }
    /// Tells the pipeline's latency, ns; it goes upstream.
    public static func latency(_ time: ClockTime) -> Event { Event(taking: gst_event_new_latency(GstClockTime(time))) }
    /// Makes pads refuse data until FLUSH_STOP.
    public static func flushStart() -> Event { Event(taking: gst_event_new_flush_start()) }
    /// - Parameter resetTime: makes a sink restart the running time of its whole pipeline.
    public static func flushStop(resetTime: Bool = true) -> Event {
        Event(taking: gst_event_new_flush_stop(resetTime ? 1 : 0))
    }
    /// Says that there are no data from a time on, ns.
    public static func gap(at time: ClockTime, duration: ClockTime) -> Event {
        Event(taking: gst_event_new_gap(GstClockTime(time), GstClockTime(duration)))
    }
    /// An upstream GstForceKeyUnit event, with which encoders produce a keyframe.
    /// - Parameters:
    ///   - time: running time from which on a keyframe is wanted; nil: at once.
    ///   - ssrc: the stream that it is for, where several come from one pad (rtpfunnel); nil: all.
    ///   - allHeaders: false for a receiver that has only lost a frame, as rtpsession does for a PLI.
    public static func forceKeyUnitUpstream(
        at time: ClockTime? = nil, ssrc: UInt32? = nil, allHeaders: Bool = true
    ) -> Event {
        let event = gst_video_event_new_upstream_force_key_unit(
            GstClockTime(time ?? .noneValue), allHeaders ? 1 : 0, 0)!
        if let ssrc {
            GValueBox(uint: Int(ssrc)).withPointer {
                gst_structure_set_value(gst_event_writable_structure(event), "ssrc", $0)
            }
        }
        return Event(taking: event)
    }
    /// An event of one's own in the order of the data; the structure is copied.
    public static func customDownstream(_ structure: Structure) -> Event {
        Event(taking: gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_copy(structure.pointer)))
    }
    package static func customUpstream(_ structure: Structure) -> Event {
        Event(taking: gst_event_new_custom(GST_EVENT_CUSTOM_UPSTREAM, gst_structure_copy(structure.pointer)))
    }

    /// Begin and length of a GAP, ns; nil: another event.
    public var gap: (time: ClockTime, duration: ClockTime?)? {
        guard kind == .gap else { return nil }
        var (time, duration) = (GstClockTime(0), GstClockTime(0))
        gst_event_parse_gap(pointer, &time, &duration)
        return ClockTime(validating: time).map { ($0, ClockTime(validating: duration)) }
    }

    /// The way of an event that belongs to the application or to the whole presentation, and not to this stream.
    package enum Passage: Sendable {
        /// With the data.
        case inOrder
        /// Past the data.
        case atOnce
    }

    /// Downstream, as an element passes it on that only converts; nil for an event of the stream itself. Keyframes and
    /// gaps are those of the input: the output has its own.
    package var downstreamPassage: Passage? {
        guard !isForceKeyUnit else { return nil }
        switch pointer.pointee.type {
        case GST_EVENT_CUSTOM_DOWNSTREAM, GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, GST_EVENT_CUSTOM_BOTH, GST_EVENT_TOC,
            GST_EVENT_STREAM_COLLECTION, GST_EVENT_SINK_MESSAGE, GST_EVENT_SEGMENT_DONE, GST_EVENT_STREAM_GROUP_DONE:
            return .inOrder
        case GST_EVENT_CUSTOM_DOWNSTREAM_OOB, GST_EVENT_CUSTOM_BOTH_OOB: return .atOnce
        default: return nil
        }
    }

    /// The same upstream.
    package var passesUpstream: Bool {
        guard !isForceKeyUnit else { return false }
        return [
            GST_EVENT_NAVIGATION, GST_EVENT_CUSTOM_UPSTREAM, GST_EVENT_CUSTOM_BOTH, GST_EVENT_CUSTOM_BOTH_OOB,
            GST_EVENT_TOC_SELECT,
        ].contains(pointer.pointee.type)
    }

    /// Pads keep it, for receivers that are linked later.
    package var isSticky: Bool {
        gst_event_type_get_flags(pointer.pointee.type).rawValue & GST_EVENT_TYPE_STICKY.rawValue != 0
    }

    /// It requests a keyframe, or announces one.
    public var isForceKeyUnit: Bool { gst_video_event_is_force_key_unit(pointer) != 0 }
    /// True for an upstream GstForceKeyUnit event of a receiver that has nothing yet.
    public var wantsAllHeaders: Bool {
        var wants: gboolean = 0
        return gst_video_event_parse_upstream_force_key_unit(pointer, nil, &wants, nil) != 0 && wants != 0
    }

    /// The running time from which on an upstream GstForceKeyUnit event wants a keyframe; nil: at once.
    public var keyframeTime: ClockTime? {
        var time = GstClockTime.max
        guard gst_video_event_parse_upstream_force_key_unit(pointer, &time, nil, nil) != 0 else { return nil }
        return ClockTime(validating: time)
    }

    /// The format of a CAPS event; nil: another event.
    public var caps: Caps? {
        guard kind == .caps else { return nil }
        var found: UnsafeMutablePointer<GstCaps>?
        gst_event_parse_caps(pointer, &found)
        return found.map { Caps(borrowing: $0) }
    }

    /// A copy of the fields; nil: it has none.
    public var structure: Structure? { gst_event_get_structure(pointer).map { Structure(copying: $0) } }

    /// The time of a LATENCY event, ns; nil: another event.
    public var latencyTime: ClockTime? {
        guard kind == .latency else { return nil }
        var time: GstClockTime = 0
        gst_event_parse_latency(pointer, &time)
        return ClockTime(validating: time)
    }

    /// The orientation of a TAG event; nil: it has none.
    public var imageOrientationTag: String? {
        kind == .tag ? kit_event_orientation(pointer).map { String(taking: $0) } : nil
    }

    /// True if the tags apply to all streams of the medium and not only to this one.
    public var hasGlobalTags: Bool { kind == .tag && kit_event_tag_scope(pointer) == GST_TAG_SCOPE_GLOBAL }

    /// The ID of a STREAM_START event; nil: another event.
    public var streamID: String? {
        guard kind == .streamStart else { return nil }
        var found: UnsafePointer<CChar>?
        gst_event_parse_stream_start(pointer, &found)
        return found.map { String(cString: $0) }
    }

    /// A copy of the tag event without `image-orientation`; nil if no tag is left.
    public func withoutImageOrientation() -> Event? {
        guard kind == .tag else { return nil }
        return kit_event_without_orientation(pointer).map { Event(taking: $0) }
    }

    /// The running time of a buffer with this PTS, according to a SEGMENT event; nil if the PTS lies outside the
    /// segment.
    public func runningTime(of pts: ClockTime) -> ClockTime? {
        guard kind == .segment else { return nil }
        var segment: UnsafePointer<GstSegment>?
        gst_event_parse_segment(pointer, &segment)
        guard let segment, segment.pointee.format == GST_FORMAT_TIME else { return nil }
        return ClockTime(validating: GstClockTime(gst_segment_to_running_time(segment, GST_FORMAT_TIME, guint64(pts))))
    }
}

extension Event {
    /// Returns the CAPS event of the same frames as progressive ones, to use instead of this event; nil for any other
    /// event, and if the frames are progressive or have at least `rows` rows.
    public func asProgressive(below rows: Int = .max) -> Event? {
        guard let caps, let info = VideoInfo(caps: caps), info.isInterlaced, info.height < rows else { return nil }
        return .caps(caps.setting("interlace-mode", GValueBox("progressive")))
    }
}

extension Pad {
    /// Passes the caps of interlaced frames as those of progressive ones.
    public func passAsProgressive() {
        addProbe(.downstreamEvent) { item in
            guard case .event(let event) = item, let other = event.asProgressive() else { return .pass }
            return .replaceEvent(other)
        }
    }
}
