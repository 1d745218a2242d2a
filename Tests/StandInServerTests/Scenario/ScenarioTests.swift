import StandInServer
import Testing

struct ScenarioTests {
    private static let restart = """
        {"name": "restart", "steps": [
          {"faults": ["queue_n:n=5,interval=1"], "note": "queue 5 s"},
          {"when": "generating", "after": 10, "faults": ["refuse"], "close": 1012},
          {"after": 3, "faults": [], "note": "back"}
        ]}
        """

    private func parse(_ text: String) throws -> Scenario { try Scenario(parsing: Array(text.utf8)) }

    @Test func theExampleIsRead() throws {
        let scenario = try parse(Self.restart)
        #expect(scenario.name == "restart" && scenario.steps.count == 3)
        #expect(scenario.steps[0].faults?.first?.kind == .queue(.n) && scenario.steps[0].faults?.first?.n == 5)
        #expect(
            scenario.steps[1].when == .generating && scenario.steps[1].after == 10 && scenario.steps[1].close == 1012)
        #expect(scenario.steps[2].faults == [] && scenario.steps[2].when == nil)
    }

    @Test(arguments: [
        ("{}", "steps"), ("[]", "not a JSON object"), ("{\"steps\": []}", "no steps"),
        ("{\"steps\": [{}], \"loop\": 1}", "no key \"loop\""),
        ("{\"steps\": [{}, {\"wait\": 3}]}", "step 2 has no key \"wait\""),
        ("{\"steps\": [{\"after\": -1}]}", "step 1: after is a number of seconds"),
        ("{\"steps\": [{\"after\": 1e300}]}", "step 1: after is a number of seconds"),
        ("{\"steps\": [{\"after\": \"1\"}]}", "step 1: after is not a number"),
        ("{\"steps\": [{\"when\": \"never\"}]}", "step 1: when is session, generating or closed"),
        ("{\"steps\": [{\"faults\": [\"nonsense\"]}]}", "step 1: there is no fault \"nonsense\""),
        ("{\"steps\": [{\"faults\": \"no_pong\"}]}", "step 1: faults is not a list of faults"),
        ("{\"steps\": [{\"inject\": [\"http_500\"]}]}", "step 1: http_500 cannot be put into a running session"),
        ("{\"steps\": [{\"close\": 70000}]}", "step 1: close is a code from 1000 to 4999"),
        ("{\"steps\": [{\"drop\": 1}]}", "step 1: drop is not true or false"),
        ("{\"steps\": [3]}", "wrong type"), ("{\"steps\": [{}]", "cut off"),
    ])
    func aMistakeIsExplained(text: String, words: String) throws {
        do {
            _ = try parse(text)
            Issue.record("accepted: \(text)")
        } catch {
            #expect("\(error)".contains(words), "\(error)")
        }
    }

    @Test func theNumberOfStepsIsLimited() throws {
        let steps = Array(repeating: "{}", count: 257).joined(separator: ",")
        #expect(throws: StandInError.self) { try parse("{\"steps\": [\(steps)]}") }
    }

    // MARK: The machine, with a virtual clock

    /// Runs the machine until it needs an event; timers fire `lateness` late.
    private func advance(
        _ machine: inout ScenarioMachine, _ actions: [ScenarioMachine.Action], _ lateness: Duration
    ) -> [Int] {
        var actions = actions
        var steps: [Int] = []
        while !actions.isEmpty {
            switch actions.removeFirst() {
            case .perform(let step): steps.append(step)
            case .setTimer(let due): actions += machine.timerFired(at: due + lateness)
            }
        }
        return steps
    }

    @Test(arguments: 0..<10)
    func eachStepIsDueAtItsTime(run: Int) throws {
        var machine = ScenarioMachine(try parse(Self.restart))
        let lateness = Duration.milliseconds(run * 9)
        #expect(advance(&machine, machine.start(), lateness) == [0])
        #expect(machine.phase == .waiting(.generating))
        #expect(machine.happened(.session, at: .seconds(1)).isEmpty)
        let live = Duration.milliseconds(5300 + run)
        let actions = machine.happened(.generating, at: live)
        #expect(actions == [.setTimer(live + .seconds(10))])
        #expect(advance(&machine, actions, lateness) == [1, 2])
        #expect(machine.phase == .done)
        // Delays do not add up: each step counts from the planned time of the one before.
        #expect(machine.runs.map(\.due) == [.zero, live + .seconds(10), live + .seconds(13)])
        #expect(machine.runs.allSatisfy { $0.ran - $0.due == lateness })
    }

    @Test func aTimerThatFiresEarlyIsSetAgain() throws {
        var machine = ScenarioMachine(try parse("{\"steps\": [{\"after\": 2, \"drop\": true}]}"))
        #expect(machine.start() == [.setTimer(.seconds(2))])
        #expect(machine.timerFired(at: .milliseconds(1999)) == [.setTimer(.seconds(2))])
        #expect(machine.timerFired(at: .seconds(2)) == [.perform(step: 0)])
        #expect(machine.timerFired(at: .seconds(3)).isEmpty)
    }

    @Test func anEventFromBeforeThePreviousStepDoesNotCount() throws {
        var machine = ScenarioMachine(
            try parse("{\"steps\": [{\"after\": 5, \"close\": 1012}, {\"when\": \"generating\", \"close\": 1000}]}"))
        _ = advance(&machine, machine.start(), .zero)
        #expect(machine.happened(.generating, at: .seconds(4)).isEmpty)
        #expect(machine.happened(.generating, at: .seconds(6)) == [.setTimer(.seconds(6))])
        #expect(machine.happened(.generating, at: .seconds(7)).isEmpty)
    }
}

@Suite(.timeLimit(.minutes(1)))
struct ScenarioRunTests {
    @Test func aRunningStandInFollowsIt() throws {
        let text = """
            {"name": "twice", "steps": [
              {"faults": ["ack_twice"]},
              {"when": "session", "after": 0.02, "faults": ["no_pong"], "close": 1012},
              {"when": "session", "after": 0.02, "faults": [], "close": 1013}]}
            """
        try TestServer.run { server in
            for _ in 1...10 {
                try server.server.start(Scenario(parsing: Array(text.utf8)))
                let first = try server.connect()
                _ = try first.next { $0 == .closeFrame(code: 1012) }
                #expect(server.server.faults.map(\.kind.name) == ["no_pong"])
                let second = try server.connect()
                _ = try second.next { $0 == .closeFrame(code: 1013) }
                #expect(server.server.faults.isEmpty)
                let status = server.server.scenarioReport
                #expect(status.contains("\"state\":\"done\"") && status.contains("\"steps_done\":3"), "\(status)")
                #expect(!status.contains("\"error\":\""), "\(status)")
            }
        }
    }

    @Test func aFaultThatCannotBeIsRejected() throws {
        try TestServer.run { server in
            let scenario = try Scenario(parsing: Array("{\"steps\": [{}, {\"faults\": [\"tls_bad_ca\"]}]}".utf8))
            #expect(throws: StandInError.self) { try server.server.start(scenario) }
            #expect(server.server.scenarioReport.contains("\"none\""))
        }
    }

    @Test func aStoppedScenarioDoesNothingMore() throws {
        try TestServer.run { server in
            let text = "{\"steps\": [{\"when\": \"session\", \"close\": 1012}]}"
            try server.server.start(Scenario(parsing: Array(text.utf8)))
            server.server.stopScenario()
            let client = try server.connect()
            _ = try client.expectGreeting()
            client.ping([7])
            #expect(try client.next() == .pong([7]))
            client.close()
        }
    }
}
