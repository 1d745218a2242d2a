// Performs the steps of a `ReplayScript`. The state machine runs as in a normal session, so that media are as usual;
// its messages wait for their place in the recording or are dropped.
import DecartProtocol
import NIOCore
import NIOWebSocket

/// The replay of one connection. Belongs to its event loop.
struct Replay {
    var script: ReplayScript
    let begun: NIODeadline
    /// Ends the wait for the next step; a later one replaces it.
    var timer: Scheduled<Void>?
    /// A step may make the machine act, which must not send the steps behind it first.
    var isAdvancing = false

    init(_ script: ReplayScript) {
        self.script = script
        begun = .now()
    }

    var now: Double { Double((NIODeadline.now() - begun).nanoseconds) / 1e9 }
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

    func replayReceived(_ message: ClientMessage, _ context: ChannelHandlerContext) {
        guard let now = replay?.now else { return }
        replay?.script.received(message, at: now)
        advanceReplay(context)
    }

    /// Performs what is due now. Called after every event.
    func advanceReplay(_ context: ChannelHandlerContext) {
        guard replay?.isAdvancing == false else { return }
        replay?.timer?.cancel()
        replay?.isAdvancing = true
        defer { replay?.isAdvancing = false }
        while !isClosing, let now = replay?.now, let (steps, next) = replay?.script.due(at: now) {
            for step in steps { perform(step, context) }
            guard steps.isEmpty else { continue }
            if let next { advanceReplay(context, after: next - now) }
            return
        }
    }

    private func advanceReplay(_ context: ChannelHandlerContext, after seconds: Double) {
        let time = TimeAmount(seconds: max(seconds, 0.001))
        replay?.timer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in advanceReplay(context) }
    }

    private func perform(_ step: ReplayScript.Step, _ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        switch step {
        case .send(let message): perform(ControlStateMachine.Action.send(message), context)
        case .sendMalformed: write(.text, ByteBuffer(string: "malformed"), context)
        case .pauseMedia(let reason): perform(machine.paused(reason: reason, .same), context)
        case .restartMedia: perform(machine.restarted(.same), context)
        case .close(let code, let reason): close(WebSocketErrorCode(codeNumber: Int(code)), reason: reason, context)
        case .drop: context.close(promise: nil)
        }
    }

    func endReplay() {
        replay?.timer?.cancel()
        replay = nil
    }
}
