// Bus messages about the session: element messages and PROGRESS. They are posted on a change only, never with a lock
// held, and none contains the API key.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline

enum SessionMessages {
    /// Element message `decart-state`: the whole state, posted whenever a part of it changes. It omits the subscribe
    /// token because messages get logged.
    static func state(_ snapshot: SessionSnapshot) -> Structure {
        Structure(
            "decart-state", ("state", GValueBox(snapshot.state.rawValue)),
            ("connected", GValueBox(snapshot.state.isConnected)), ("in-session", GValueBox(snapshot.state.isInSession)),
            ("service-status", GValueBox(snapshot.serviceStatus.rawValue)),
            ("muted-by-service", GValueBox(snapshot.isMutedByService)),
            ("queue-position", GValueBox(int: snapshot.queue?.position ?? -1)),
            ("queue-size", GValueBox(int: snapshot.queue?.size ?? -1)),
            ("generation-seconds", GValueBox(double: snapshot.generationSeconds ?? -1)),
            ("session-id", GValueBox(snapshot.sessionID)),
            ("session-duration", GValueBox(uint: Int(clamping: snapshot.granted?.components.seconds ?? 0))),
            ("retries", GValueBox(int: snapshot.retries)), ("error-code", GValueBox(snapshot.lastError?.code.rawValue)),
            ("error-message", GValueBox(snapshot.lastError?.message)))
    }

    /// Element message `decart-prompt-result`, one per request.
    static func promptResult(_ result: PromptResult) -> Structure {
        Structure(
            "decart-prompt-result", ("id", GValueBox(uint64: result.id)), ("text", GValueBox(result.text)),
            ("accepted", GValueBox(result.isAccepted)), ("stored", GValueBox(result.outcome == .stored)),
            ("error", GValueBox(result.error)), ("milliseconds", GValueBox(uint: milliseconds(result))))
    }

    /// Element message `decart-session-ending`: `extend-session` can still prevent the end.
    static func ending(left: Duration) -> Structure {
        Structure("decart-session-ending", ("seconds-left", GValueBox(double: left / .seconds(1))))
    }

    /// Element message `decart-session-renewed`: another session has replaced the running one before its end.
    static func renewed(after time: Duration) -> Structure {
        Structure("decart-session-renewed", ("seconds", GValueBox(double: time / .seconds(1))))
    }

    /// Element message `decart-session-ended`: the session that a viewer showed is over. EOS follows.
    static func ended(_ cause: SessionError) -> Structure {
        Structure(
            "decart-session-ended", ("reason", GValueBox(cause.message)), ("error-code", GValueBox(cause.code.rawValue))
        )
    }

    /// Element message `decart-quality`, posted when the verdict changes.
    static func quality(_ judge: QualityJudge) -> Structure {
        let (verdict, figures) = (judge.verdict, judge.figures)
        return Structure(
            "decart-quality", ("quality", GValueBox(verdict.quality.rawValue)),
            ("limiting-factor", GValueBox(verdict.factor.rawValue)), ("warming-up", GValueBox(judge.isWarmingUp)),
            ("round-trip-time", GValueBox(nanoseconds: figures.roundTrip)),
            ("glass-to-glass-time", GValueBox(nanoseconds: figures.glassToGlass)),
            ("fraction-lost", GValueBox(double: figures.loss ?? -1)),
            ("bandwidth-ratio", GValueBox(double: figures.bandwidthRatio ?? -1)),
            ("cpu-ratio", GValueBox(double: figures.cpuRatio ?? -1)),
            ("frames-sent-per-second", GValueBox(double: figures.framesSent ?? -1)),
            ("frames-received-per-second", GValueBox(double: figures.framesReceived ?? -1)))
    }

    /// Element message `decart-attempt`: one for each attempt to connect, when it is connected or has failed.
    static func attempt(_ attempt: AttemptReport) -> Structure {
        let phases = attempt.phases
        return Structure(
            "decart-attempt", ("number", GValueBox(uint64: attempt.number)), ("renewal", GValueBox(attempt.isRenewal)),
            ("transport", GValueBox(attempt.transport?.rawValue)), ("success", GValueBox(attempt.error == nil)),
            ("error-code", GValueBox(attempt.error?.code.rawValue)),
            ("error-stage", GValueBox(attempt.error?.stage.rawValue)),
            ("image-size", GValueBox(uint: attempt.imageSize)),
            ("total-time", GValueBox(nanoseconds: attempt.duration)),
            ("channel-time", GValueBox(nanoseconds: phases.opened)),
            ("open-time", GValueBox(nanoseconds: phases.transport)),
            ("upgrade-time", GValueBox(nanoseconds: phases.upgrade)),
            ("queue-time", GValueBox(nanoseconds: phases.queue)), ("room-time", GValueBox(nanoseconds: phases.room)),
            ("ack-time", GValueBox(nanoseconds: phases.initialAck)),
            ("media-time", GValueBox(nanoseconds: phases.media)), ("ice-time", GValueBox(nanoseconds: phases.ice)),
            ("dtls-time", GValueBox(nanoseconds: phases.dtls)))
    }

    /// Element message `decart-input-overload`: an encoded input sends more than can be sent on.
    static func overload(_ overload: EncodedOverload) -> Structure {
        Structure(
            "decart-input-overload", ("reason", GValueBox(overload.reason.rawValue)),
            ("bitrate", GValueBox(uint: overload.bitrate)), ("target-bitrate", GValueBox(uint: overload.target)),
            ("framerate", GValueBox(double: overload.framerate)),
            ("max-framerate", GValueBox(uint: overload.maximumFramerate)))
    }

    static func milliseconds(_ result: PromptResult) -> Int { Int(clamping: result.elapsed.clockTime / 1_000_000) }

    /// PROGRESS with code `connect`: START, UPDATE ("In queue, 3 of 12"), then exactly one of COMPLETE, ERROR and
    /// CANCELED.
    static func progress(from before: SessionSnapshot, to now: SessionSnapshot) -> (Message.Progress, String)? {
        let trying: Set<SessionState> = [.connecting, .reconnecting]
        let (was, tries) = (trying.contains(before.state), trying.contains(now.state))
        switch (was, tries) {
        case (false, true): return (.start, now.state == .connecting ? "Connecting" : "Reconnecting")
        case (true, true):
            if now.serviceStatus == .waitingForSession, before.serviceStatus != .waitingForSession {
                return (.update, "Waiting for a free session")
            }
            guard now.queue != before.queue, let queue = now.queue else { return nil }
            return (.update, "In queue, \(queue.position)" + (queue.size.map { " of \($0)" } ?? ""))
        case (true, false):
            if now.state.isConnected { return (.complete, "Connected") }
            // The ERROR message has the cause.
            return now.state == .error ? (.failed, "Failed") : (.cancelled, "Disconnected")
        case (false, false): return nil
        }
    }
}

extension GValueBox {
    /// An int64 in ns; -1: unknown.
    convenience init(nanoseconds duration: Duration?) {
        self.init(int64: duration.map { Int(clamping: $0.clockTime) } ?? -1)
    }
}
