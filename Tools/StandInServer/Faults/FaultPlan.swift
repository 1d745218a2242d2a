import DecartProtocol
import Synchronization

/// The faults of a stand-in, or of one of its connections.
package struct FaultPlan: Sendable, Equatable {
    package static let maximumCount = 64

    package var faults: [Fault]

    package init(_ faults: [Fault] = []) {
        self.faults = faults
    }

    /// Parses one SPEC per line; skips empty lines and lines that begin with `#`.
    package init(parsing lines: [String]) throws(StandInError) {
        faults = []
        for line in lines {
            let line = line.trimmingWhitespace()
            if line.isEmpty || line.hasPrefix("#") { continue }
            guard faults.count < Self.maximumCount else {
                throw StandInError("there are more than \(Self.maximumCount) faults")
            }
            faults.append(try Fault(parsing: line))
        }
    }

    /// Parses the query items `fault=SPEC` of a request target. They apply to this connection only: a client that
    /// reconnects has to repeat them.
    init(target: String) throws(StandInError) {
        let specs = PercentEncoding.queryItems(ofTarget: target).filter { $0.name == "fault" }.map(\.value)
        try self.init(parsing: specs)
        for fault in faults {
            if fault.kind.scope == .listener || fault.kind.scope == .transport {
                throw StandInError("\(fault.kind.name) acts before the URL is read: give it to the stand-in")
            }
            if fault.count != nil || fault.after != nil {
                throw StandInError("count and after are for the stand-in's own faults, not for a URL")
            }
        }
    }

    func first(_ kind: FaultKind) -> Fault? { faults.first { $0.kind == kind } }
    func contains(_ kind: FaultKind) -> Bool { first(kind) != nil }
    /// Some act before the first byte of a connection.
    var actsOnTransport: Bool { faults.contains { $0.kind.scope == .transport } }

    func first<Result>(_ body: (Fault) -> Result?) -> Result? {
        for fault in faults {
            if let result = body(fault) { return result }
        }
        return nil
    }

    /// - Parameter connection: Number of the connection since the plan was set, from 1.
    func forConnection(_ connection: Int) -> FaultPlan {
        FaultPlan(faults.filter { $0.applies(toConnection: connection) })
    }

    static func + (left: FaultPlan, right: FaultPlan) -> FaultPlan { FaultPlan(left.faults + right.faults) }
}

/// The plan in force and the number of connections since it was set. Any thread may read or replace it at any time.
final class FaultBoard: Sendable {
    private struct State {
        var plan: FaultPlan
        var connections = 0
    }

    private let state: Mutex<State>

    init(_ plan: FaultPlan) {
        state = Mutex(State(plan: plan))
    }

    var plan: FaultPlan { state.withLock(\.plan) }

    func set(_ plan: FaultPlan) {
        state.withLock { $0 = State(plan: plan) }
    }

    /// Uncounts the connection that was counted last because it belongs to a room: faults count sessions, and it is part
    /// of one.
    func uncount() {
        state.withLock { $0.connections = max($0.connections - 1, 0) }
    }

    func next() -> FaultPlan {
        state.withLock { state in
            state.connections += 1
            return state.plan.forConnection(state.connections)
        }
    }
}
