// Performs the steps of a `FaultScript`, which an honest service would never take.
import DecartProtocol
import NIOCore
import NIOWebSocket

extension ConnectionHandler {
    func receive(notice: FaultNotice, _ context: ChannelHandlerContext) {
        guard notice.sessionID.map({ $0 == identity.id }) ?? true, !isClosing else { return }
        log("faults: \(notice.faults.map(\.kind.name).joined(separator: ", "))")
        let steps = script.add(notice.faults)
        machine.limitAccepted(to: script.plan.acceptedCount)
        if script.plan.bendsCandidates { perform(machine.trickle(), context) }
        addMediaFaults(notice.faults)
        perform(steps, context)
    }

    func perform(_ steps: [FaultScript.Step], _ context: ChannelHandlerContext) {
        for step in steps { perform(step, context) }
    }

    private func perform(_ step: FaultScript.Step, _ context: ChannelHandlerContext) {
        // Orders run on a closing channel too: `send` checks `isClosing`, and media must stop whichever side closed.
        if case .action(let action) = step { return perform(action, context) }
        guard !isClosing else { return }
        switch step {
        case .action: break
        case .later(let seconds, let steps): later(seconds, steps, context)
        case .every(let seconds, let steps):
            let interval = TimeAmount(seconds: max(seconds, 0.001))
            timers.every(interval, on: context.eventLoop) { [self] _ in perform(steps, context) }
        case .raw(let bytes):
            journal.noteRaw(size: bytes.count)
            encoder(context)?.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil)
        case .rawRepeated(let bytes):
            guard let encoder = encoder(context) else { return }
            journal.noteRaw(size: bytes.count)
            EndlessWriter.write(ByteBuffer(bytes: bytes), from: encoder)
        case .pings(let count): flood(count, context)
        case .close(let code, let reason): close(WebSocketErrorCode(codeNumber: Int(code)), reason: reason, context)
        case .reset:
            journal.noteEvent("reset")
            Reset.close(context.channel)
        case .prompt(let prompt): perform(machine.overridden(prompt: prompt), context)
        case .mute: isMute = true
        case .ignorePings: ignoresPings = true
        case .endGeneration(let reason): perform(machine.ended(reason: reason), context)
        case .pauseGeneration(let reason, let output):
            perform(machine.paused(reason: reason, output), context)
        case .restartGeneration(let output): perform(machine.restarted(output), context)
        }
    }

    func later(_ seconds: Double, _ steps: [FaultScript.Step], _ context: ChannelHandlerContext) {
        guard seconds > 0 else { return perform(steps, context) }
        timers.after(TimeAmount(seconds: seconds), on: context.eventLoop) { [self] in perform(steps, context) }
    }

    /// Sends at most 100 pings per 10 ms; waits while the client does not read.
    private func flood(_ count: Int, _ context: ChannelHandlerContext) {
        var remaining = count
        timers.every(.milliseconds(10), from: .zero, on: context.eventLoop) { [self] task in
            guard remaining > 0, !isClosing else { return task.cancel() }
            for _ in 0..<min(100, remaining) where context.channel.isWritable {
                write(.ping, ByteBuffer(integer: UInt32(truncatingIfNeeded: remaining)), context)
                remaining -= 1
            }
        }
    }

    private func encoder(_ context: ChannelHandlerContext) -> ChannelHandlerContext? {
        isMute ? nil : try? context.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self)
    }
}
