// Performs the steps of a `FaultScript`, which an honest service would never take.
import DecartProtocol
import NIOCore
import NIOWebSocket

extension ConnectionHandler {
    func take(_ notice: FaultNotice, _ context: ChannelHandlerContext) {
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
        case .every(let seconds, let steps): every(seconds, steps, context)
        case .raw(let bytes):
            journal.noteRaw(size: bytes.count)
            encoder(context)?.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil)
        case .rawRepeated(let bytes, let rounds):
            guard let encoder = encoder(context) else { return }
            journal.noteRaw(size: bytes.count)
            EndlessWriter.write(ByteBuffer(bytes: bytes), rounds: rounds, from: encoder)
        case .pings(let count): flood(count, context)
        case .close(let code, let reason):
            var data = context.channel.allocator.buffer(capacity: 2 + reason.utf8.count)
            data.writeInteger(code)
            data.writeString(reason)
            close(data, context)
        case .reset:
            journal.noteEvent("reset")
            Reset.close(context.channel)
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
        let number = faultTimers.number()
        let bound = NIOLoopBound((self, context, steps), eventLoop: context.eventLoop)
        let timer = context.eventLoop.scheduleTask(in: TimeAmount(seconds: seconds)) {
            let (handler, context, steps) = bound.value
            handler.faultTimers.fired(number)
            handler.perform(steps, context)
        }
        faultTimers.add(timer, number)
    }

    private func every(_ seconds: Double, _ steps: [FaultScript.Step], _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context, steps), eventLoop: context.eventLoop)
        let interval = TimeAmount(seconds: max(seconds, 0.001))
        faultTimers.add(
            context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
                let (handler, context, steps) = bound.value
                handler.perform(steps, context)
            })
    }

    /// Sends at most 100 pings per 10 ms; waits while the client does not read.
    private func flood(_ count: Int, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let remaining = NIOLoopBoundBox(count, eventLoop: context.eventLoop)
        faultTimers.add(
            context.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(10)) { task in
                let (handler, context) = bound.value
                guard remaining.value > 0, !handler.isClosing else { return task.cancel() }
                for _ in 0..<min(100, remaining.value) where context.channel.isWritable {
                    handler.write(.ping, ByteBuffer(integer: UInt32(truncatingIfNeeded: remaining.value)), context)
                    remaining.value -= 1
                }
            })
    }

    private func encoder(_ context: ChannelHandlerContext) -> ChannelHandlerContext? {
        isMute ? nil : try? context.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self)
    }
}
