// The log of a session. INFO has one line for each phase of an attempt, with its duration; WARNING has failures; DEBUG has
// the type of each message. No line contains a prompt, a key or a token.
import DecartProtocol
import Log

/// The log of one session; used on its queue only.
struct SessionLog {
    /// The service decides how many lines there are.
    private let logger: Logger
    /// For the one line that says how a session ends.
    private let ending: Logger
    private let configuration: SessionConfiguration
    private var attempt: AttemptID?

    init(_ logger: Logger, _ configuration: SessionConfiguration) {
        (self.logger, ending) = (logger.limited(), logger)
        self.configuration = configuration
    }

    /// Call after the machine has handled an event, with its snapshots before and after.
    mutating func handled(_ actions: [SessionAction], _ before: SessionSnapshot, _ after: SessionSnapshot) {
        guard logger.isEnabled(.warning) else { return }
        for action in actions { performed(action, after) }
        changed(before, after)
    }

    func received(_ message: ServerMessage) { logger.debug("received \(message.type.printable(limit: 64))") }

    private mutating func performed(_ action: SessionAction, _ snapshot: SessionSnapshot) {
        switch action {
        case .openChannel(let id, let transport, let timeout):
            attempt = id
            if snapshot.state.isConnected { info("renews the session beside the running one") }
            info("opens the control channel, transport \(transport?.rawValue ?? "auto"), timeout \(timeout.text)")
        case .startMedia(_, let start):
            info(start.transport == .webrtc ? "negotiates a direct connection" : "joins a LiveKit room")
        case .send(_, let message): logger.debug("sends \(message.type)")
        case .stopMedia(let id): logger.debug("attempt \(id.number): ends its media path")
        case .schedule(.retry, let delay) where snapshot.serviceStatus == .waitingForSession:
            logger.info("waits for a free session, next dial in \(delay.text)")
        case .schedule(.retry, let delay):
            let limit = configuration.retry.maximumRetries.map(String.init) ?? "unlimited"
            logger.info("retry \(snapshot.retries) of \(limit) in \(delay.text)")
        case .report(let report): reported(report)
        case .recover: logger.info("recovers the media path")
        case .closeChannel, .probeChannel, .applyAnswer, .applyOffer, .rollbackOffer, .applyCandidate, .sampleMedia,
            .requestKeyframe, .suspectPath, .schedule, .cancel:
            break
        }
    }

    private func reported(_ report: SessionReport) {
        switch report {
        case .warning(let error): logger.warning("attempt \(number) failed: \(error.logText)")
        case .failed(let error): ending.warning("the session failed: \(error.logText)")
        case .promptResult(let result):
            switch result.outcome {
            case .accepted: logger.info("prompt \(result.id): accepted after \(result.elapsed.text)")
            case .rejected(let reason):
                logger.info(
                    "prompt \(result.id): rejected after \(result.elapsed.text): \(reason.printable(limit: 200))")
            case .timedOut: logger.info("prompt \(result.id): not acknowledged within \(result.elapsed.text)")
            case .superseded: logger.info("prompt \(result.id): superseded by a newer one before it was sent")
            case .stored: logger.info("prompt \(result.id): stored for the next session")
            }
        case .sessionEnded(let cause): ending.info("the watched session has ended: \(cause.logText)")
        case .renewed(let time): info("the session was renewed within \(time.text)")
        case .ending(let left): logger.info("the session ends in \(left.text)")
        case .note(let text): logger.debug(text)
        case .transportDetected(let transport):
            logger.debug("the service's transport is \(transport?.rawValue ?? "unknown again")")
        }
    }

    private func changed(_ before: SessionSnapshot, _ after: SessionSnapshot) {
        guard before != after else { return }
        let (old, new) = (before.phases, after.phases)
        if old.upgrade == nil, let upgrade = new.upgrade {
            let open = new.transport.map { "name, TCP and TLS \($0.text), " } ?? ""
            info("the control channel is open: \(open)upgrade \(upgrade.text)")
        }
        if before.queue != after.queue, let queue = after.queue {
            info("waits in the queue at position \(queue.position)\(queue.size.map { " of \($0)" } ?? "")")
        }
        if before.identity?.id != after.identity?.id, after.identity != nil {
            info("the service assigned a session ID")
        }
        if old.initialAck == nil, let time = new.initialAck {
            info("the service acknowledged the first prompt and image after \(time.text)")
        }
        if old.connected == nil, let time = new.connected {
            let parts = [new.ice.map { "ICE \($0.text)" }, new.dtls.map { "DTLS \($0.text)" }].compactMap(\.self)
            let details = parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))"
            info("media are connected after \(time.text)\(details)")
        }
        if old.firstFrame == nil, let time = new.firstFrame { info("the first frame arrived after \(time.text)") }
        if before.state != after.state { logger.info("state: \(after.state.rawValue)") }
    }

    private var number: String { attempt.map { String($0.number) } ?? "–" }

    private func info(_ text: String) { logger.info("attempt \(number): \(text)") }
}

extension SessionError {
    /// Message, code, stage and HTTP status, in one line.
    fileprivate var logText: String {
        let status = httpStatus.map { ", HTTP \($0)" } ?? ""
        return "\(message) (\(code.rawValue), \(stage.rawValue)\(status))"
    }
}

extension Duration {
    /// `12.3 ms` below a second, else `4.56 s`.
    fileprivate var text: String {
        self < .seconds(1)
            ? "\((self / .milliseconds(1) * 10).rounded() / 10) ms" : "\((self / .seconds(1) * 100).rounded() / 100) s"
    }
}
