internal import CGStreamer

public final class Clock: GObject, @unchecked Sendable {
    private var clock: UnsafeMutablePointer<GstClock> { raw.assumingMemoryBound(to: GstClock.self) }

    /// The system's monotonic clock.
    public static var system: Clock { Clock(taking: gst_system_clock_obtain()) }

    public var time: ClockTime { ClockTime(gst_clock_get_time(clock)) }

    /// Creates a wait that another thread can cancel.
    public func makeWait(until time: ClockTime) -> ClockWait {
        ClockWait(gst_clock_new_single_shot_id(clock, GstClockTime(time)))
    }
}

// @unchecked: GStreamer allows one thread to wait on a clock id while another unschedules it.
public final class ClockWait: @unchecked Sendable {
    private let id: GstClockID
    fileprivate init(_ id: GstClockID) { self.id = id }
    deinit { gst_clock_id_unref(id) }

    /// Blocks until the time is reached. Returns false if the wait was cancelled.
    public func wait() -> Bool { gst_clock_id_wait(id, nil) != GST_CLOCK_UNSCHEDULED }
    public func cancel() { gst_clock_id_unschedule(id) }
}
