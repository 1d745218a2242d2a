/// Changes of faults while the stand-in runs.
extension StandInServer {
    /// The plan in force for new connections.
    package var faults: [Fault] { faultBoard.plan.faults }

    /// Replaces the plan for new connections, which count from 1 again. Running sessions keep their faults.
    package func setFaults(_ faults: [Fault]) throws(StandInError) {
        try check(faults)
        faultBoard.set(FaultPlan(faults))
        withRunning { listeners, _ in listeners.apply(FaultPlan(faults)) }
    }

    /// Injects faults of control channel and media into running sessions, now or `at` seconds from now. Media that are
    /// not negotiated yet start with them.
    /// - Parameter sessionID: Nil: all sessions.
    package func inject(_ faults: [Fault], into sessionID: String? = nil) throws(StandInError) {
        for fault in faults where !fault.kind.isInjectable {
            throw StandInError("\(fault.kind.name) cannot be put into a running session")
        }
        withRunning { $1.notify(FaultNotice(sessionID: sessionID, faults: faults)) }
    }

    /// Closes sessions with a close frame that has this code.
    /// - Parameter sessionID: Nil: all sessions.
    package func closeSessions(code: UInt16 = 1001, reason: String = "", sessionID: String? = nil) {
        withRunning { $1.notify(StepNotice(sessionID: sessionID, steps: [.close(code: code, reason: reason)])) }
    }

    /// Resets the connection of a session.
    package func dropSession(_ sessionID: String) {
        withRunning { $1.notify(StepNotice(sessionID: sessionID, steps: [.reset])) }
    }

    /// Resets every connection, as if the service had been killed. If `refuse` is set before, clients cannot reconnect.
    package func dropAll() {
        withRunning { $1.forEach { $0.reset() } }
    }
}
