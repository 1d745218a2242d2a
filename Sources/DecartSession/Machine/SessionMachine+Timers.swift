import DecartProtocol

extension SessionMachine {
    mutating func fired(_ timer: TimerID) {
        switch timer {
        case .retry: if phase == .backingOff { dial() }
        case .limit: watchLimit(mayEnd: true)
        case .renewal: renew()
        case .acks: acksAreOverdue(.current)
        case .successorAcks: acksAreOverdue(.candidate)
        case .opening(let id):
            guard live(id, at: .opening) != nil else { return }
            timedOut(id, "The service could not be reached in time. Check base-url and the network", .connect)
        case .statusTimeout(let id):
            guard live(id, at: .open)?.isQueued == false else { return }
            beginInitialState(id)
        case .initialAck(let id):
            guard let attempt = live(id), attempt.initialState != .accepted else { return }
            timedOut(id, "The service did not acknowledge the first prompt and image in time", .initialState)
        case .roomInfo(let id):
            guard let attempt = live(id), attempt.step < .negotiating else { return }
            guard attempt.transport == .livekit else { return choose(.webrtc, id) }
            timedOut(
                id, "The service did not send a room in time. Set transport=webrtc if it has no rooms", .media)
        case .mediaConnect(let id):
            guard let attempt = live(id, at: .negotiating) else { return }
            let advice =
                attempt.relaysAreMissing
                ? "No TURN server gave a relay: check its address, user and password, which must be percent-encoded in "
                    + "turn-servers and may have expired"
                : "Check that UDP passes, or set turn-servers"
            timedOut(id, "The media connection was not established in time. \(advice)", .media)
        case .mediaClosed(let id):
            guard let attempt = live(id), let error = attempt.mediaClosed else { return }
            attemptFailed(id, attempt.causeOfEnd ?? error)
        case .renegotiationAnswer(let id):
            guard live(id) != nil, attempts[id]?.offers.rollback() == true else { return }
            emit(.rollbackOffer(id))
            let text = "The service did not answer a later offer in time; the media stay as they were"
            report(.warning(.timeout(text, stage: .media)))
        case .mediaSample(let id):
            guard attempts[id]?.step == .connected else { return }
            emit(.schedule(timer, after: configuration.mediaSampleInterval))
            emit(.sampleMedia(id))
        case .stable(let id):
            guard live(id, at: .connected)?.role == .current else { return }
            backOff.reset()
            earlyRetries = 0
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

    private mutating func timedOut(_ id: AttemptID, _ text: String, _ stage: SessionError.Stage) {
        attemptFailed(id, .timeout(text, stage: stage))
    }
}
