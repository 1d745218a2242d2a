// The errors that the machine itself finds: each names the cause, and the remedy where there is one.
import DecartProtocol

extension SessionError {
    var permanent: SessionError { with(isPermanent: true) }
    /// For an error that does not end the session.
    var passing: SessionError { with(isPermanent: false) }

    private func with(isPermanent: Bool) -> SessionError {
        var error = self
        error.isPermanent = isPermanent
        return error
    }

    /// Continues the message, which may end with the service's words.
    func adding(_ sentence: String) -> SessionError {
        var error = self
        error.message = "\(message.asSentence) \(sentence)"
        return error
    }

    // MARK: Timeouts

    static let openTimeout = timeout(
        "The service could not be reached in time. Check base-url and the network", stage: .connect)
    static let silentService = timeout(
        "The server has accepted the connection, but has sent no message for 5 s; the attempt goes on. Check that base-url is "
            + "the address of the service", stage: .initialState)
    static let initialAckTimeout = timeout(
        "The service did not acknowledge the first prompt and image in time", stage: .initialState)
    static let roomTimeout = timeout(
        "The service did not send a room in time. Set transport=webrtc if it has no rooms", stage: .media)
    static let renegotiationTimeout = timeout(
        "The service did not answer a later offer in time; the media stay as they were", stage: .media)

    static func mediaTimeout(relaysAreMissing: Bool) -> SessionError {
        let advice =
            relaysAreMissing
            ? "No TURN server gave a relay: check its address, its certificate (ca-file), and user and "
                + "password, which must be percent-encoded in turn-servers and may have expired"
            : "Check that UDP passes, or set turn-servers"
        return timeout("The media connection was not established in time. \(advice)", stage: .media)
    }

    private static func timeout(_ text: String, stage: Stage) -> SessionError {
        SessionError(.connectionTimeout, "\(text).", stage: stage)
    }

    // MARK: Media

    static let addressLost = SessionError(
        .webRTC, "The address of this host that the connection used is gone; a new session begins.", stage: .media)

    static let pathLost = SessionError(
        .webRTC, "Packets do not reach the service, and no other network path was found.", stage: .media)

    static func noRooms(_ text: String) -> SessionError {
        let cause = "The service has no LiveKit rooms; set transport=webrtc or auto. It reported: "
        return SessionError(.server, cause + text.printable(limit: 500), stage: .media, isPermanent: true)
    }

    static func noMedia(for time: Duration, _ watchdog: MediaWatchdog) -> SessionError {
        let cause =
            watchdog.receivesPackets
            ? "The service's video arrived, but none of it could be decoded" : "No media arrived from the service"
        let reason = watchdog.dropsLargeFrames ? ", because its frames are larger than the limit of 4 MiB." : "."
        let text = "\(cause) for \(time.components.seconds) s while frames were sent\(reason)"
        return SessionError(.webRTC, text, stage: .media)
    }

    /// - Parameter limit: length of a stall after which another session begins; nil: never.
    static func stall(for time: Duration, _ watchdog: MediaWatchdog, limit: Duration?) -> SessionError {
        let next = limit.map { "; another one begins after \($0.components.seconds) s (media-timeout)" }
        return noMedia(for: time, watchdog).adding("The session continues\(next ?? "").")
    }

    static func noGeneration(for time: Duration) -> SessionError {
        let text = "The service ended the generation and started no other while frames were sent for "
        return SessionError(.server, text + "\(time.components.seconds) s.", stage: .generation)
    }

    static func shortSessions(_ length: Duration, least: Duration) -> SessionError {
        SessionError(
            .server,
            "The service grants sessions of \(length.components.seconds) s only. After the first ones, another one begins at "
                + "most every \(least.components.seconds) s, because each is billed.", stage: .generation)
    }

    static let pausedByNetwork = SessionError(
        .webRTC,
        "The network towards this host carries too little: the room has paused the service's video. The session "
            + "continues, and the video with more bandwidth.", stage: .media)
    static let starvedByLoss = SessionError(
        .webRTC,
        "The network towards this host carries too little: it loses so many packets of the service's video that hardly a "
            + "frame can be decoded. The session continues, and the video with more bandwidth.", stage: .media)
    static let mutedBySender = SessionError(
        .server, "The service has muted its video. The session continues until it unmutes it.", stage: .media)
    static let mutedByRoom = SessionError(
        .server,
        "The service has muted our video, so no frames are sent. The session continues; set mute-video to true and false "
            + "again to lift the mute.", stage: .media)

    // MARK: Ends

    /// A client token that the service would refuse for its claim `exp`, by the clock of this host.
    package static func expiredToken(_ age: Int, _ remedy: String, isPermanent: Bool) -> SessionError {
        SessionError(
            .invalidAPIKey,
            "The client token has expired \(age) s ago (its claim exp), so no session was opened. \(remedy)",
            stage: .configuration, isPermanent: isPermanent)
    }

    /// The service refused the first prompt and image. Unless it names another cause, it did so for their content.
    static func refusedStart(_ reason: String) -> SessionError {
        let isClear = PermanentErrorText.matches(reason) || ConcurrencyLimitText.matches(reason)
        let type = ServiceErrorType(nil, text: reason) ?? (isClear ? nil : .moderationViolation)
        var error = service(reason, type: type, stage: .initialState)
        error.stage = .initialState
        return error.permanent
    }

    /// The service closed the control channel. It refuses the session for good with 1008 (policy violation, RFC 6455
    /// §7.4.1), whatever the reason says.
    package static func closed(_ code: Int?, _ reason: String, isConnected: Bool) -> SessionError {
        let text = reason.printable(limit: 123)
        let details = [code.map(String.init), text.isEmpty ? nil : text].compactMap(\.self).joined(separator: ": ")
        let shown = "The service closed the connection" + (details.isEmpty ? "." : " (\(details)).")
        let isForGood = code == 1008
        if let type = ServiceErrorType(nil, text: text) {
            let error = SessionError(reported: type, shown, stage: .channel)
            return isForGood ? error.permanent : error
        }
        // A service that closes a running session with 1013 restarts, or is overloaded.
        let isFull = (code == 1013 && !isConnected) || ConcurrencyLimitText.matches(text)
        return SessionError(
            PermanentErrorText.concernsKey(text) ? .invalidAPIKey : isFull ? .concurrencyLimit : .webSocket,
            isFull ? "\(shown) \(accountIsFull)" : shown, stage: .channel,
            isPermanent: isForGood || PermanentErrorText.matches(text))
    }

    /// The service ended a generation for a cause that the user can remove.
    static func generation(_ code: DecartErrorCode, _ deed: String) -> SessionError {
        let text =
            code == .insufficientCredits
            ? "The service \(deed): the account is out of credits. Top up the account's credits."
            : "The service \(deed) because of its content moderation. Change the prompt, the reference image or the "
                + "input."
        return SessionError(code, text, stage: .generation)
    }

    static func expired(_ text: String) -> SessionError {
        SessionError(.server, "Session expired: \(text)", stage: .generation, isPermanent: true)
    }

    static func limitReached(_ allowed: Duration) -> SessionError {
        expired(
            "The session reached its limit of \(allowed.components.seconds) s, set by max-session-duration or by the client "
                + "token.")
    }

    func after(retries: Int) -> SessionError {
        guard retries > 0 else { return self }
        return adding("Gave up after \(retries) \(retries == 1 ? "retry" : "retries"); max-retries allows more.")
    }

    /// The session could not be renewed, and continues.
    /// - Parameter left: time until its end.
    func afterRenewal(next: Attempt.Renewal, left: Duration) -> SessionError {
        let seconds = left.components.seconds
        let sentence =
            switch next {
            case .none: "The session was not renewed and ends in \(seconds) s."
            case .expected: "The session was not renewed yet; the next try follows."
            case .atEnd:
                "The session was not renewed beside the running one; a new one replaces it in \(seconds) s."
            }
        return passing.adding(sentence)
    }

    /// - Parameter wait: longest wait for a session of the account to end.
    func afterWait(_ wait: Duration?) -> SessionError {
        let seconds = wait?.components.seconds ?? 0
        return adding(
            seconds > 0 ? "No session was free within \(seconds) s (limit-wait)." : "Set limit-wait to wait for one.")
    }

    /// The cause that a service gives for the end of a generation, if the user can remove it.
    static func causeOfGenerationEnd(_ reason: String) -> DecartErrorCode? {
        if reason.lowercased().contains("credit") { return .insufficientCredits }
        return reason.lowercased().contains("moderation") ? .moderationViolation : nil
    }
}
