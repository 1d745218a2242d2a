import DecartProtocol
import Synchronization

/// The recording that a stand-in replays, and the number of sessions that it has opened. A session beyond the last one of
/// the recording replays that again.
final class ReplayBoard: Sendable {
    private let attempts: [[ControlRecording.Entry]]
    /// Transports of the recorded sessions; empty if the recording ends before any media.
    let transports: Set<MediaTransportKind>
    private let count = Mutex(0)

    init(_ recording: ControlRecording) {
        let numbers = Set(recording.entries.map(\.attempt)).sorted()
        attempts = numbers.map { number in recording.entries.filter { $0.attempt == number } }
        var transports: Set<MediaTransportKind> = []
        for entry in recording.entries {
            switch entry.event {
            case .received(.made(.roomInfo)): transports.insert(.livekit)
            case .received(.made(.answer)): transports.insert(.webrtc)
            default: break
            }
        }
        self.transports = transports
    }

    /// Call it for each connection that requests a session: rooms, viewers and requests for tokens are none.
    func next() -> RecordedSession {
        count.withLock { count in
            defer { count += 1 }
            return RecordedSession(entries: attempts.indices.contains(count) ? attempts[count] : attempts.last ?? [])
        }
    }
}

/// One session of the recording.
struct RecordedSession: Sendable {
    let entries: [ControlRecording.Entry]

    /// The HTTP answer if the recorded service did not open this session's channel.
    var refusal: HTTPAnswer? {
        guard !entries.contains(where: { $0.event == .opened }) else { return nil }
        for entry in entries {
            // Without a status the relay of decart-check answers 502.
            if case .failed(let status, let reason) = entry.event { return HTTPAnswer(status ?? 502, reason) }
        }
        return nil
    }
}
