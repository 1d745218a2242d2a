internal import CGStreamer

/// A clock of GStreamer: that of a pipeline, or the system's. Any thread may use it.
public final class Clock: GObject, @unchecked Sendable {
    private var clock: UnsafeMutablePointer<GstClock> { raw.assumingMemoryBound(to: GstClock.self) }

    /// The system's monotonic clock.
    public static var system: Clock { Clock(taking: gst_system_clock_obtain()) }

    /// The clock's present time, ns since an origin of its own.
    public var time: ClockTime { ClockTime(gst_clock_get_time(clock)) }

    /// Creates a wait that another thread can cancel.
    public func makeWait(until time: ClockTime) -> ClockWait {
        ClockWait(gst_clock_new_single_shot_id(clock, GstClockTime(time)))
    }
}

/// A wait for a time of a clock, which another thread may end early.
// @unchecked: GStreamer allows one thread to wait on a clock id while another unschedules it.
public final class ClockWait: @unchecked Sendable {
    private let id: GstClockID
    fileprivate init(_ id: GstClockID) { self.id = id }
    deinit { gst_clock_id_unref(id) }

    /// Blocks until the time is reached. Returns false if the wait was cancelled.
    public func wait() -> Bool { gst_clock_id_wait(id, nil) != GST_CLOCK_UNSCHEDULED }
    /// Ends the wait at once, also one that has not begun. Any thread may call it.
    public func cancel() { gst_clock_id_unschedule(id) }
}
