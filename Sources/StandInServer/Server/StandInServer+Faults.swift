/// Faults while it runs. Nothing happens unless it does.
extension StandInServer {
    /// The plan in force for new connections.
    package var faults: [Fault] { services.faults.plan.faults }

    /// Replaces the plan; connections count from 1 again. Running sessions keep theirs.
    package func setFaults(_ faults: [Fault]) throws(StandInError) {
        try check(faults)
        services.faults.set(FaultPlan(faults))
        withRunning { doors, _ in doors.apply(FaultPlan(faults)) }
    }

    /// Puts faults into running sessions, now or `at` seconds from now: those of control channel and media. Media that
    /// are not yet negotiated get them at their beginning.
    /// - Parameter sessionID: nil: all sessions.
    package func inject(_ faults: [Fault], into sessionID: String? = nil) throws(StandInError) {
        for fault in faults where fault.kind.scope != .session && fault.kind.scope != .media {
            throw StandInError("\(fault.kind.name) cannot be put into a running session")
        }
        withRunning { $1.tell(FaultNotice(sessionID: sessionID, faults: faults)) }
    }

    /// Closes sessions politely, with this code.
    /// - Parameter sessionID: nil: all sessions.
    package func closeSessions(code: UInt16 = 1001, reason: String = "", sessionID: String? = nil) {
        withRunning { $1.tell(StepNotice(sessionID: sessionID, steps: [.close(code: code, reason: reason)])) }
    }

    /// Resets the connections of sessions.
    package func dropSession(_ sessionID: String) {
        withRunning { $1.tell(StepNotice(sessionID: sessionID, steps: [.reset])) }
    }

    /// Resets every connection: what clients see when the service is killed. With `refuse` set before, it stays away.
    package func dropAll() {
        withRunning { $1.resetAll() }
    }
}
