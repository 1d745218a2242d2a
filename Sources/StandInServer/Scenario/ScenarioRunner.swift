// Drives a `ScenarioMachine` with the real clock, and carries its steps out. Everything here runs on `queue`, because
// steps block until sockets are closed or bound.
import Dispatch

// @unchecked: mutable fields are touched on `queue` only.
final class ScenarioRunner: @unchecked Sendable {
    private struct Run {
        let scenario: Scenario
        let start: ContinuousClock.Instant
        var machine: ScenarioMachine
        var errors: [Int: String] = [:]
        var timer: (any DispatchSourceTimer)?
    }

    private let queue = DispatchQueue(label: "decart-standin.scenario", qos: .userInteractive)
    private weak let server: StandInServer?
    private let log: @Sendable (String) -> Void

    // MARK: State (`queue`)
    private var run: Run?
    /// Distinguishes the timers of this run from those of an earlier one.
    private var number = 0

    init(server: StandInServer, log: @escaping @Sendable (String) -> Void) {
        self.server = server
        self.log = log
    }

    /// Replaces a running scenario.
    func start(_ scenario: Scenario) {
        queue.sync {
            cancel()
            var run = Run(scenario: scenario, start: .now, machine: ScenarioMachine(scenario))
            let actions = run.machine.start()
            self.run = run
            log("scenario: \(LogText.clean(scenario.name)), \(scenario.steps.count) steps")
            perform(actions)
        }
    }

    func stop() {
        queue.sync { cancel() }
    }

    func happened(_ event: SessionEvent, at time: ContinuousClock.Instant) {
        queue.async { [self] in
            guard let start = run?.start else { return }
            perform(run?.machine.happened(event, at: time - start) ?? [])
        }
    }

    private func cancel() {
        number += 1
        run?.timer?.cancel()
        run = nil
    }

    private func perform(_ actions: [ScenarioMachine.Action]) {
        for action in actions {
            switch action {
            case .setTimer(let due): setTimer(due)
            case .perform(let step): perform(step: step)
            }
        }
    }

    private func setTimer(_ due: Duration) {
        guard let start = run?.start else { return }
        let now = ContinuousClock.now - start
        // A step that is due runs before the caller continues: the first faults are in force when `start` returns.
        guard due > now else { return perform(run?.machine.timerFired(at: now) ?? []) }
        let number = number
        let wait = min((due - now) / .seconds(1), 1e8)
        let timer = DispatchSource.makeTimerSource(flags: .strict, queue: queue)
        timer.schedule(deadline: .now() + wait, leeway: .nanoseconds(0))
        timer.setEventHandler { [weak self] in
            guard let self, number == self.number, let start = run?.start else { return }
            perform(run?.machine.timerFired(at: ContinuousClock.now - start) ?? [])
        }
        run?.timer?.cancel()
        run?.timer = timer
        timer.resume()
    }

    private func perform(step number: Int) {
        guard let server, let steps = run?.machine.steps, steps.indices.contains(number) else { return }
        let step = steps[number]
        log("scenario: step \(number + 1)")
        do throws(StandInError) {
            // Faults of new connections first: a client that a close makes reconnect must meet them.
            if let faults = step.faults { try server.setFaults(faults) }
            if !step.inject.isEmpty { try server.inject(step.inject) }
            if let code = step.close { server.closeSessions(code: code, reason: step.reason) }
            if step.drops { server.dropAll() }
        } catch {
            log("scenario: step \(number + 1): \(error)")
            run?.errors[number] = error.description
        }
    }

    // MARK: Report

    var status: JSONValue {
        queue.sync {
            guard let run else { return .fields(["state": .string("none"), "steps": .array([])]) }
            let elapsed = ContinuousClock.now - run.start
            let steps = run.machine.steps.indices.map { status(of: $0, run) }
            return .fields([
                "name": .string(run.scenario.name), "state": .string(run.machine.phase.name),
                "waits_for": run.machine.phase.event.map { .string($0.rawValue) } ?? .null,
                "elapsed_ms": .milliseconds(elapsed), "steps_done": .number(run.machine.runs.count),
                "steps": .array(steps),
            ])
        }
    }

    private func status(of step: Int, _ run: Run) -> JSONValue {
        let times = run.machine.runs.indices.contains(step) ? run.machine.runs[step] : nil
        return .fields([
            "number": .number(step + 1), "due_ms": .milliseconds(times?.due), "ran_ms": .milliseconds(times?.ran),
            "error": .optional(run.errors[step]),
        ])
    }
}

extension ScenarioMachine.Phase {
    fileprivate var name: String {
        switch self {
        case .waiting: "waiting"
        case .timed: "running"
        case .done: "done"
        }
    }

    fileprivate var event: SessionEvent? { if case .waiting(let event) = self { event } else { nil } }
}
