import DecartProtocol

/// The running stand-in, as its control endpoint sees it. `StandInServer` says what each member does.
protocol Controlled: AnyObject, Sendable {
    var services: SessionServices { get }
    var pageAccess: PageAccess? { get }
    var health: JSONValue { get }
    var faults: [Fault] { get }

    func setFaults(_ faults: [Fault]) throws(StandInError)
    func inject(_ faults: [Fault], into sessionID: String?) throws(StandInError)
    func closeSessions(code: UInt16, reason: String, sessionID: String?)
    func dropSession(_ sessionID: String)
    func dropAll()
    func forgetSessions() -> Int
    func applyPrompt(_ prompt: String, sessionID: String?)
    func pageFile(_ path: String, host: String) -> HTTPAnswer
    var pageConfiguration: HTTPAnswer { get }
}

extension Controlled {
    var sessions: [SessionRecord] { services.board.records }
    var sessionsJSON: SessionsJSON { SessionsJSON(showsPrompts: services.journal.showsPrompts) }
}
