// The progress of a scenario as a value: takes events and times, and returns actions. It knows no clock, timer or
// session; `ScenarioRunner` drives it.

package struct ScenarioMachine: Sendable {
    package enum Action: Sendable, Equatable {
        /// Calls `timerFired` at this time; replaces an earlier timer.
        case setTimer(Duration)
        case perform(step: Int)
    }

    package enum Phase: Sendable, Equatable {
        case waiting(SessionEvent)
        case timed(due: Duration)
        case done
    }

    /// Times of a step that has run, since the start of the scenario.
    package struct Run: Sendable, Equatable {
        package let due: Duration
        package let ran: Duration
    }

    package let steps: [Scenario.Step]
    package private(set) var phase = Phase.done
    package private(set) var runs: [Run] = []
    /// The time that the next step counts from. It is the planned one, so that delays do not add up.
    private var base = Duration.zero

    package init(_ scenario: Scenario) {
        steps = scenario.steps
    }

    /// All times count from this call.
    package mutating func start() -> [Action] { next() }

    /// - Parameter time: of the event, not of the call.
    package mutating func happened(_ event: SessionEvent, at time: Duration) -> [Action] {
        // An event from before the previous step does not count.
        guard phase == .waiting(event), time >= base else { return [] }
        base = time
        return schedule()
    }

    package mutating func timerFired(at now: Duration) -> [Action] {
        guard case .timed(let due) = phase else { return [] }
        guard now >= due else { return [.setTimer(due)] }
        let step = runs.count
        runs.append(Run(due: due, ran: now))
        base = due
        return [.perform(step: step)] + next()
    }

    private mutating func next() -> [Action] {
        guard runs.count < steps.count else {
            phase = .done
            return []
        }
        if let event = steps[runs.count].when {
            phase = .waiting(event)
            return []
        }
        return schedule()
    }

    private mutating func schedule() -> [Action] {
        let due = base + .seconds(steps[runs.count].after)
        phase = .timed(due: due)
        return [.setTimer(due)]
    }
}
