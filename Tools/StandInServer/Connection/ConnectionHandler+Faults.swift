// Performs the steps of a `FaultScript`, which an honest service would never take.
import DecartProtocol
import Network

extension ConnectionHandler {
    func receive(notice: FaultNotice) {
        guard notice.sessionID.map({ $0 == identity.id }) ?? true else { return }
        log("faults: \(notice.faults.map(\.kind.name).joined(separator: ", "))")
        let steps = script.add(notice.faults)
        machine.limitAccepted(to: script.plan.acceptedCount)
        if script.plan.bendsCandidates { perform(machine.trickle()) }
        addMediaFaults(notice.faults)
        perform(steps)
    }

    func perform(_ steps: [FaultScript.Step]) {
        for step in steps { perform(step) }
    }

    private func perform(_ step: FaultScript.Step) {
        // Orders run on a closing channel too: `send` checks `isClosing`, and media must stop whichever side closed.
        if case .action(let action) = step { return perform(action) }
        guard !connection.isClosing else { return }
        switch step {
        case .action: break
        case .later(let seconds, let steps): later(seconds, steps)
        case .every(let seconds, let steps):
            timers.every(Duration(seconds: max(seconds, 0.001))) { [self] in perform(steps) }
        case .raw(let bytes):
            journal.noteRaw(size: bytes.count)
            connection.write(raw: bytes)
        case .rawRepeated(let bytes):
            guard !connection.isMute else { return }
            journal.noteRaw(size: bytes.count)
            connection.writeEndlessly(bytes)
        case .pings(let count): flood(count)
        case .close(let code, let reason): connection.close(code: code, reason: reason)
        case .reset:
            journal.noteEvent("reset")
            connection.reset()
        case .prompt(let prompt):
            journal.noteOverride(prompt)
            perform(machine.overridden(prompt: prompt))
        case .mute: connection.isMute = true
        case .ignorePings: connection.ignoresPings = true
        case .endGeneration(let reason): perform(machine.ended(reason: reason))
        case .pauseGeneration(let reason, let output):
            perform(machine.paused(reason: reason, output))
        case .restartGeneration(let output): perform(machine.restarted(output))
        }
    }

    func later(_ seconds: Double, _ steps: [FaultScript.Step]) {
        guard seconds > 0 else { return perform(steps) }
        timers.after(Duration(seconds: seconds)) { [self] in perform(steps) }
    }

    /// Sends at most 100 pings per 10 ms; waits while the client does not read.
    private func flood(_ count: Int) {
        var remaining = count
        for _ in 0..<min(100, remaining) where connection.isWritable {
            connection.send(.ping, withUnsafeBytes(of: UInt32(truncatingIfNeeded: remaining).bigEndian) { Array($0) })
            remaining -= 1
        }
        if remaining > 0 { timers.after(.milliseconds(10)) { [self] in flood(remaining) } }
    }
}
