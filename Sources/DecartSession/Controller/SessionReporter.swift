// Limits the reports from a session to its application, because a service may send more than the application, its bus
// and its log can handle. A burst passes as it comes; beyond that, only the latest snapshot and the latest warning wait
// until the next report is due.
//
// Everything runs on the scheduler's queue.

// @unchecked: after init, accessed only on the scheduler's queue.
package final class SessionReporter: @unchecked Sendable {
    private let scheduler: any SessionScheduler
    private let onChange: @Sendable (SessionSnapshot, SessionReporter) -> Void
    private let onReport: @Sendable (SessionReport, SessionReporter) -> Void
    private var pace = Pace(burst: 50, interval: .milliseconds(50))
    private var notePace = Pace(burst: 50, interval: .milliseconds(50))
    private var snapshot: SessionSnapshot?
    private var warning: SessionReport?
    private var isScheduled = false
    /// True once the application has ended the session, perhaps within a report: no report follows.
    package private(set) var isSilent = false

    /// The closures pass snapshots and reports to the application, and check `isSilent` between two calls to it.
    package init(
        scheduler: any SessionScheduler, onChange: @escaping @Sendable (SessionSnapshot, SessionReporter) -> Void,
        onReport: @escaping @Sendable (SessionReport, SessionReporter) -> Void
    ) {
        self.scheduler = scheduler
        self.onChange = onChange
        self.onReport = onReport
    }

    package func changed(_ snapshot: SessionSnapshot) {
        self.snapshot = snapshot
        passOn()
    }

    /// Limits warnings and notes, which the service causes. All other reports go at once, after the snapshot and the
    /// warning that wait: prompt results and the end of the session are no more frequent than the application's own
    /// requests.
    package func report(_ report: SessionReport) {
        switch report {
        case .warning:
            warning = report
            passOn()
        case .note:
            // A line of the debug log: beyond the pace it is dropped, and nothing that waits goes with it.
            if notePace.admit(now: scheduler.now) == nil, !isSilent { onReport(report, self) }
        default:
            flush()
            if !isSilent { onReport(report, self) }
        }
    }

    /// Passes the latest snapshot and warning on now.
    package func flush() {
        let (snapshot, warning) = (snapshot, warning)
        (self.snapshot, self.warning) = (nil, nil)
        if let snapshot, !isSilent { onChange(snapshot, self) }
        if let warning, !isSilent { onReport(warning, self) }
    }

    package func silence() { isSilent = true }

    private func passOn() {
        guard !isScheduled else { return }
        guard let wait = pace.admit(now: scheduler.now) else { return flush() }
        isScheduled = true
        scheduler.schedule(after: wait) { [weak self] in
            guard let self else { return }
            self.isScheduled = false
            if self.snapshot != nil || self.warning != nil { self.passOn() }
        }
    }
}
