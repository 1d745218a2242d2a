// Performs the steps of a `ReplayScript`. The state machine runs as in a normal session, so that media are as usual;
// its messages wait for their place in the recording or are dropped.
import DecartProtocol
import EventLoopThreads
import Network

/// The replay of one connection. Belongs to its thread.
struct Replay {
    var script: ReplayScript
    let begun = monotonicTime
    /// Ends the wait for the next step; a later one replaces it.
    var timer: NetworkTimer?
    /// A step may make the machine act, which must not send the steps behind it first.
    var isAdvancing = false

    init(_ script: ReplayScript) { self.script = script }

    var now: Double { (monotonicTime - begun) / .seconds(1) }
}

extension ConnectionHandler {
    func withoutMessages(_ actions: [ControlStateMachine.Action]) -> [ControlStateMachine.Action] {
        guard replay != nil else { return actions }
        return actions.filter { action in
            guard case .send(let message) = action else { return true }
            replay?.script.store(message)
            return false
        }
    }

    func replayReceived(_ message: ClientMessage) {
        guard let now = replay?.now else { return }
        replay?.script.received(message, at: now)
        advanceReplay()
    }

    /// Performs what is due now. Called after every event.
    func advanceReplay() {
        guard replay?.isAdvancing == false else { return }
        replay?.timer?.cancel()
        replay?.isAdvancing = true
        defer { replay?.isAdvancing = false }
        while !connection.isClosing, let now = replay?.now, let (steps, next) = replay?.script.due(at: now) {
            for step in steps { perform(step) }
            guard steps.isEmpty else { continue }
            if let next { advanceReplay(after: next - now) }
            return
        }
    }

    private func advanceReplay(after seconds: Double) {
        let time = Duration(seconds: max(seconds, 0.001))
        replay?.timer = connection.thread.later(after: time) { [self] in advanceReplay() }
    }

    private func perform(_ step: ReplayScript.Step) {
        guard !connection.isClosing else { return }
        switch step {
        case .send(let message): perform(ControlStateMachine.Action.send(message))
        case .sendMalformed: connection.send(.text, Array("malformed".utf8))
        case .pauseMedia(let reason): perform(machine.paused(reason: reason, .same))
        case .restartMedia: perform(machine.restarted(.same))
        case .close(let code, let reason): connection.close(code: code, reason: reason)
        case .drop: connection.close()
        }
    }

    func endReplay() {
        replay?.timer?.cancel()
        replay = nil
    }
}
