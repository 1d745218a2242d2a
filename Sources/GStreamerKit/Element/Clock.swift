internal import CGStreamer

package final class Clock: GObject, @unchecked Sendable {
    private var clock: UnsafeMutablePointer<GstClock> { raw.assumingMemoryBound(to: GstClock.self) }

    /// The system's monotonic clock.
    package static var system: Clock { Clock(taking: gst_system_clock_obtain()) }

    package var time: ClockTime { ClockTime(gst_clock_get_time(clock)) }

    /// Creates a wait that another thread can cancel.
    package func makeWait(until time: ClockTime) -> ClockWait {
        ClockWait(gst_clock_new_single_shot_id(clock, GstClockTime(time)))
    }
}

// @unchecked: GStreamer allows one thread to wait on a clock id while another unschedules it.
package final class ClockWait: @unchecked Sendable {
    private let id: GstClockID
    fileprivate init(_ id: GstClockID) { self.id = id }
    deinit { gst_clock_id_unref(id) }

    /// Blocks until the time is reached. Returns false if the wait was cancelled.
    package func wait() -> Bool { gst_clock_id_wait(id, nil) != GST_CLOCK_UNSCHEDULED }
    package func cancel() { gst_clock_id_unschedule(id) }
}
