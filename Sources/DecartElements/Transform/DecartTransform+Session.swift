// The session of `decarttransform`: its state, results and errors become properties, signals and bus messages.
//
// Everything runs on the session's queue, which retains the element meanwhile, unless it says otherwise.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

extension DecartTransform {
    func changed(_ snapshot: SessionSnapshot, _ reporter: SessionReporter) {
        let (before, run, codecWarning) = state.withLock { state in
            state.history.changed(to: snapshot, now: MonotonicTime.now)
            let warning = snapshot.transport == .livekit ? state.run?.codecWarning.take() : nil
            return (exchange(&state.snapshot, with: snapshot), state.run, warning)
        }
        let changes = SessionSnapshot.properties.changes(from: before, to: snapshot)
        let message = SessionMessages.state(snapshot)
        let element = handle.unowned
        if let codecWarning { warn(SessionError(.invalidOptions, codecWarning, stage: .media)) }
        // The application may end the session in each of these calls.
        for name in changes where !reporter.isSilent { element.notify(name) }
        guard !reporter.isSilent else { return }
        if message != SessionMessages.state(before) { element.post(message) }
        if snapshot.lastAttempt != before.lastAttempt, let attempt = snapshot.lastAttempt, !reporter.isSilent {
            element.post(SessionMessages.attempt(attempt))
        }
        if let (progress, text) = SessionMessages.progress(from: before, to: snapshot), !reporter.isSilent {
            element.post(Message.progress(element, progress, code: "connect", text: text))
        }
        if snapshot.state.isConnected, !before.state.isConnected, !reporter.isSilent, let run {
            judgeConnection(of: run, snapshot)
        }
    }

    func report(_ report: SessionReport, _ reporter: SessionReporter) {
        switch report {
        case .failed(let error): fail(error)
        case .warning(let error):
            warn(error, isCause: true)
        case .sessionEnded(let cause):
            handle.unowned.post(SessionMessages.ended(cause))
            drain()
        case .promptResult(let result): post(result, reporter)
        case .renewed(let time):
            state.withLock { $0.history.renewed() }
            handle.unowned.post(SessionMessages.renewed(after: time))
        case .ending(let left): handle.unowned.post(SessionMessages.ending(left: left))
        case .note, .transportDetected: break
        }
    }

    private func post(_ result: PromptResult, _ reporter: SessionReporter) {
        let element = handle.unowned
        element.post(SessionMessages.promptResult(result))
        guard !reporter.isSilent else { return }
        element.emit(
            "prompt-result",
            [
                GValueBox(uint64: result.id), GValueBox(result.text), GValueBox(result.isAccepted),
                GValueBox(result.error),
                GValueBox(uint: SessionMessages.milliseconds(result)),
            ])
        if let error = result.error, !reporter.isSilent {
            warn(SessionError(.processing, "The prompt was not accepted: \(error)", stage: .generation))
        }
    }

    /// Any thread that keeps the element alive.
    func fail(_ error: SessionError) {
        let id = state.withLock { state in
            state.history.lastError = error.code
            state.run?.outcome.hasFailed = true
            return state.snapshot.sessionID
        }
        handle.unowned.postError(ElementProblem(error, sessionID: id))
    }

    /// Any thread that keeps the element alive. A former session has no part in a warning without one.
    /// - Parameter isCause: the attempt of the session has failed by it.
    func warn(_ error: SessionError, isCause: Bool = false) {
        let id = state.withLock { state in
            if isCause { state.run?.outcome.cause = error }
            state.history.lastWarning = error.code
            return state.snapshot.state.isInSession ? state.snapshot.sessionID : nil
        }
        handle.unowned.postWarning(ElementProblem(error, sessionID: id))
    }

    func encoderWasMade(_ encoder: Element, followsBitrate: Bool) {
        handle.unowned.emit("encoder-setup", [GValueBox(object: encoder)])
        guard !followsBitrate else { return }
        let description = state.withLock { state -> String? in
            guard let run = state.run, !run.hasWarnedOfEncoder else { return nil }
            state.run?.hasWarnedOfEncoder = true
            return state.settings.encoding.encoder
        }
        guard let description else { return }
        let text =
            "The bitrate property of the encoder '\(description)' is unknown, so the encoder keeps its own bitrate and "
            + "may send more than the network carries. Set its bitrate in a handler of encoder-setup, and then to the "
            + "property target-bitrate whenever that changes."
        LogCategories.media(.warning, handle.unowned, text)
        warn(SessionError(.invalidOptions, text, stage: .configuration))
    }

    /// Keeps a child's error from the pipeline if the session can handle it. Called on the thread that posts.
    ///
    /// Drops the children's STATE_CHANGED messages: there are dozens at each start, no application needs them, and
    /// before GStreamer 1.26 a bus can lose a message, and leak the element that it references, while more than 32
    /// wait. Drops their LATENCY messages, which change nothing for the pipeline: the source pads answer latency
    /// queries themselves and post a message when their answer changes.
    func handleMessage(_ message: Message) -> Message? {
        switch message.kind {
        case .eos, .stateChanged, .latency: return nil
        case .error, .warning:
            let isTaken = input?.processing.claims(message) == true || session?.claims(message) == true
            return isTaken ? nil : message
        default: return message
        }
    }
}
