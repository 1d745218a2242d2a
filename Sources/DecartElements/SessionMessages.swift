// What an application hears of the session on the bus: element messages and progress. Posted on change only, never
// with a lock held; the key is in none of them.
import DecartProtocol
import DecartSession
import GStreamerKit

enum SessionMessages {
    /// Element message `decart-state`: all that is known, whenever something of it changes; but not the subscribe
    /// token, for messages are logged.
    static func state(_ snapshot: SessionSnapshot) -> Structure {
        let structure = Structure("decart-state")
        structure["state"] = GValueBox(snapshot.state.rawValue)
        structure["connected"] = GValueBox(snapshot.state.isConnected)
        structure["in-session"] = GValueBox(snapshot.state.isInSession)
        structure["service-status"] = GValueBox(snapshot.serviceStatus.rawValue)
        structure["queue-position"] = GValueBox(int: snapshot.queue?.position ?? -1)
        structure["queue-size"] = GValueBox(int: snapshot.queue?.size ?? -1)
        structure["generation-seconds"] = GValueBox(double: snapshot.generationSeconds ?? -1)
        structure["session-id"] = GValueBox(snapshot.sessionID)
        structure["session-duration"] = GValueBox(uint: Int(clamping: snapshot.granted?.components.seconds ?? 0))
        structure["retries"] = GValueBox(int: snapshot.retries)
        structure["error-code"] = GValueBox(snapshot.lastError?.code.rawValue)
        structure["error-message"] = GValueBox(snapshot.lastError?.message)
        return structure
    }

    /// Element message `prompt-result`, once for each request.
    static func promptResult(_ result: PromptResult) -> Structure {
        let structure = Structure("prompt-result")
        structure["id"] = GValueBox(uint64: result.id)
        structure["text"] = GValueBox(result.text)
        structure["accepted"] = GValueBox(result.isAccepted)
        structure["error"] = GValueBox(result.error)
        structure["milliseconds"] = GValueBox(uint: milliseconds(result))
        return structure
    }

    /// Element message `decart-session-ending`: extend-session can still prevent it.
    static func ending(left: Duration) -> Structure {
        let structure = Structure("decart-session-ending")
        structure["seconds-left"] = GValueBox(double: left / .seconds(1))
        return structure
    }

    static func milliseconds(_ result: PromptResult) -> Int { Int(clamping: result.elapsed.clockTime / 1_000_000) }

    /// PROGRESS with code `connect`: started, "In queue, 3 of 12", then exactly one end.
    static func progress(from before: SessionSnapshot, to now: SessionSnapshot) -> (Message.Progress, String)? {
        let trying: Set<SessionState> = [.connecting, .reconnecting]
        let (was, tries) = (trying.contains(before.state), trying.contains(now.state))
        switch (was, tries) {
        case (false, true): return (.start, now.state == .connecting ? "Connecting" : "Reconnecting")
        case (true, true):
            guard now.queue != before.queue, let queue = now.queue else { return nil }
            return (.update, "In queue, \(queue.position)" + (queue.size.map { " of \($0)" } ?? ""))
        case (true, false):
            if now.state.isConnected { return (.complete, "Connected") }
            return now.state == .error ? (.failed, now.lastError?.message ?? "Failed") : (.cancelled, "Disconnected")
        case (false, false): return nil
        }
    }
}
