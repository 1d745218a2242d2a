// EOS of `decarttransform`: frames that are in flight when the input ends still leave before it. A flush undoes it.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization

extension DecartTransform {
    func sendEvent(_ event: Event) -> Bool? {
        guard event.kind == .eos else { return nil }
        drain(byApplication: true)
        return true
    }

    /// Waits about a second at most for frames that are still in flight; without a connected session, not at all.
    func drain(byApplication: Bool = false) {
        let (isFirst, session, isConnected) = endInput(byApplication: byApplication)
        guard isFirst else { return }
        guard let session, isConnected else { return finish() }
        awaitRest(session, { [output] in output?.counters.received ?? 0 }) { [weak self] in self?.videoEnded(session) }
    }

    private func endInput(byApplication: Bool) -> (isFirst: Bool, session: ElementSession?, isConnected: Bool) {
        state.withLock { state in
            let isFirst = state.run?.input.end(byApplication: byApplication) ?? true
            return (isFirst, state.run?.session, state.snapshot.state.isConnected)
        }
    }

    /// Checks up to ten times, after 200 ms and then every 100 ms, and ends once nothing came between two checks.
    private func awaitRest(
        _ session: ElementSession, left: Int = 10, last: UInt64? = nil, _ received: @escaping @Sendable () -> UInt64,
        then end: @escaping @Sendable () -> Void
    ) {
        let last = last ?? received()
        session.after(.milliseconds(left == 10 ? 200 : 100)) { [weak self] in
            let now = received()
            guard left > 1, now != last else { return end() }
            self?.awaitRest(session, left: left - 1, last: now, received, then: end)
        }
    }

    /// The audio of a file may go on after its last frame: then `src` ends, and the session with the audio.
    private func videoEnded(_ session: ElementSession) {
        guard let phase = now.run?.input, phase.isDraining, !phase.isEndedByApplication, audio.goesOn else {
            return finish()
        }
        guard reportEmptyOutput() else { return }
        output?.finish()
        awaitAudio(session, last: audio.gate.counters.framesIn)
    }

    /// Looks again every 200 ms. Audio of which nothing comes for five seconds has ended too: the session is billed.
    private func awaitAudio(_ session: ElementSession, last: UInt64, silent: Int = 0) {
        session.after(.milliseconds(200)) { [weak self] in
            guard let self, let phase = self.now.run?.input, phase.isDraining else { return }
            let now = self.audio.gate.counters.framesIn
            let silent = now == last && self.audio.gate.isPlaying ? silent + 1 : 0
            guard !phase.isEndedByApplication, self.audio.goesOn, silent < 25 else {
                return self.awaitRest(session, { [audio = self.audio] in audio.counters.received }) { [weak self] in
                    self?.end()
                }
            }
            self.awaitAudio(session, last: now, silent: silent)
        }
    }

    /// A flush that ends undoes EOS, as for every pad, and so does another stream, unless the EOS is the application's: the
    /// input continues, in a new session.
    func resume(afterFlush: Bool) {
        let resumes = state.withLock { state in
            guard state.run?.input.resume(afterFlush: afterFlush) == true, let run = state.run else { return false }
            // Under the lock, as in `finish`: of an end and a start, the later one holds.
            if state.settings.session.autoConnect, !run.input.awaitsVideo { run.session.controller.start() }
            return true
        }
        guard resumes else { return }
        output?.resume()
        audio.resume()
    }

    private func finish() {
        if reportEmptyOutput() { end() }
    }

    private func end() {
        // A branch behind `audio_src` that waits for a pad which has not come gets one.
        if let identity = output?.identity { audio.show(as: identity) }
        state.withLock { state in
            guard state.run?.input.isDraining != false else { return }
            state.run?.session.controller.stop()
            output?.finish()
            audio.finish()
        }
    }

    /// Posts the error before EOS, so that a program that waits for either of them sees the error.
    /// - Returns: false if the input has resumed.
    private func reportEmptyOutput() -> Bool {
        let frames = (sent: input?.gate.counters.framesIn ?? 0, received: output?.counters.received ?? 0)
        let (isOver, problem, isError) = state.withLock { state -> (Bool, ElementProblem?, Bool) in
            guard let run = state.run else { return (true, nil, false) }
            guard run.input.isDraining else { return (false, nil, false) }
            let (settings, snapshot) = (state.settings, state.snapshot)
            var outcome = run.outcome
            outcome.hasInput = frames.sent > run.framesBefore.sent
            outcome.hasOutput = frames.received > run.framesBefore.received
            // Audio without video has had a warning already.
            outcome.hasEnded = !run.input.isEndedByApplication && !run.input.hasWarnedOfAudio
            outcome.isConnected = snapshot.state.isConnected
            outcome.isQueued = snapshot.queue != nil
            outcome.wantsOutput =
                settings.session.autoConnect && settings.subscribeToken == nil && settings.sending.takesVideo
            let problem = outcome.problem(sessionID: snapshot.sessionID)
            let isError = problem != nil && settings.fallback != .passthrough
            if isError { state.run?.outcome.hasFailed = true }
            return (true, problem, isError)
        }
        if let problem, isError {
            LogCategories.session(.warning, handle.unowned, problem.text)
            handle.unowned.postError(problem)
        } else if let problem {
            handle.unowned.postWarning(problem)
        }
        return isOver
    }

    /// Downstream of `src` has enough. The session goes on while `audio_src` still gives audio. Called on the streaming
    /// thread of `src`.
    func outputEnded() {
        guard !audio.isGiving else { return }
        let (isFirst, session, _) = endInput(byApplication: false)
        if isFirst { session?.controller.stop() }
    }
}
