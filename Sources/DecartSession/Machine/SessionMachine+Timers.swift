import DecartProtocol

extension SessionMachine {
    mutating func fired(_ timer: TimerID) {
        switch timer {
        case .retry: if phase == .backingOff { dial() }
        case .limitWaitNotice: announceLimitWait()
        case .limit: watchLimit(mayEnd: true)
        case .renewal: renew()
        case .acks: acksAreOverdue(.current)
        case .successorAcks: acksAreOverdue(.candidate)
        case .opening(let id):
            if live(id, at: .opening) != nil { attemptFailed(id, .openTimeout) }
        case .statusTimeout(let id):
            if live(id, at: .open)?.isQueued == false { beginInitialState(id) }
        case .firstMessage(let id):
            // Each limit on the way ends later, and its error cannot know that nothing has come.
            if let attempt = live(id), attempt.step < .negotiating { report(.warning(.silentService)) }
        case .initialAck(let id):
            if let attempt = live(id), attempt.initialState != .accepted { attemptFailed(id, .initialAckTimeout) }
        case .roomInfo(let id):
            guard let attempt = live(id), attempt.step < .negotiating else { return }
            guard attempt.transport == .livekit else { return choose(.webrtc, id) }
            attemptFailed(id, .roomTimeout)
        case .mediaConnect(let id):
            guard let attempt = live(id, at: .negotiating) else { return }
            let error = SessionError.mediaTimeout(relaysAreMissing: attempt.relaysAreMissing)
            attemptFailed(id, attempt.causeOfRejoin(else: error))
        case .mediaClosed(let id):
            guard let attempt = live(id), let error = attempt.mediaClosed else { return }
            attemptFailed(id, attempt.causeOfEnd ?? error)
        case .renegotiationAnswer(let id):
            guard let attempt = live(id), attempts[id]?.offers.rollback() == true else { return }
            guard attempt.path == .passes else { return restartFailed(attempt) }
            emit(.rollbackOffer(id))
            // The warning about a stall covers the restart of ICE that it causes.
            if !attempt.watchdog.isStalled { report(.warning(.renegotiationTimeout)) }
        case .mediaSample(let id):
            guard attempts[id]?.step == .connected else { return }
            emit(.schedule(timer, after: configuration.mediaSampleInterval))
            emit(.sampleMedia(id))
        case .stable(let id):
            if live(id, at: .connected)?.role == .current { backOff.reset() }
        case .held(let id): announceHold(id)
        case .recovery(let id): recoveryIsOverdue(id)
        case .suspension(let id):
            if suspended?.id == id { endSuspended() }
        case .takeover(let id):
            guard let attempt = live(id, at: .open) else { return }
            endSuspended()
            // In the queue, `ready` proceeds.
            guard !attempt.isQueued else { return }
            proceed(id)
            if live(id, at: .open)?.snapshot.serviceStatus == .ready { beginInitialState(id) }
        }
    }
}
