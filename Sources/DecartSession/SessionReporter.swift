// Between a session and its application: a service may say more than an application, its bus and its log can bear. A
// burst goes on as it comes; beyond that the latest snapshot and the latest warning wait until another report is due.
//
// Everything runs on the scheduler's queue.

/// A token bucket: so many reports at once, and so many a second.
package struct ReportPace: Sendable {
    package static let burst = 50
    package static let interval = Duration.milliseconds(50)

    /// When the bucket would be full again.
    private var full = Duration.zero

    package init() {}

    /// nil: the report may go now, and is counted; else how long it has to wait.
    package mutating func take(now: Duration) -> Duration? {
        let next = max(full, now) + Self.interval
        let excess = next - now - Self.interval * Self.burst
        guard excess <= .zero else { return excess }
        full = next
        return nil
    }
}

// @unchecked: touched on the scheduler's queue only, after init.
package final class SessionReporter: @unchecked Sendable {
    private let scheduler: any SessionScheduler
    private let onChange: @Sendable (SessionSnapshot, SessionReporter) -> Void
    private let onReport: @Sendable (SessionReport, SessionReporter) -> Void
    private var pace = ReportPace()
    private var snapshot: SessionSnapshot?
    private var warning: SessionReport?
    private var isScheduled = false
    /// Set when the application ends the session, perhaps from within a report: no report follows.
    package private(set) var isSilent = false

    /// - Parameters: what passes snapshots and reports on to the application, and asks `isSilent` between two calls to
    ///   it.
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

    /// Results, the end and the like are as many as the application's requests: they go at once, behind what is
    /// waiting.
    package func report(_ report: SessionReport) {
        if case .warning = report {
            warning = report
            passOn()
        } else {
            flush()
            if !isSilent { onReport(report, self) }
        }
    }

    /// The latest goes now.
    package func flush() {
        let (snapshot, warning) = (snapshot, warning)
        (self.snapshot, self.warning) = (nil, nil)
        if let snapshot, !isSilent { onChange(snapshot, self) }
        if let warning, !isSilent { onReport(warning, self) }
    }

    package func silence() { isSilent = true }

    private func passOn() {
        guard !isScheduled else { return }
        guard let wait = pace.take(now: scheduler.now) else { return flush() }
        isScheduled = true
        scheduler.schedule(after: wait) { [weak self] in
            guard let self else { return }
            self.isScheduled = false
            if self.snapshot != nil || self.warning != nil { self.passOn() }
        }
    }
}
