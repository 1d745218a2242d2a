// Pings of a room's signalling connection, as a value: any message from the server shows that it is alive.
import LiveKitProtocol
import Recovery

struct RoomKeepalive: Sendable {
    /// nil: the server wants no pings.
    private var interval: Duration?
    private var timeout = RecoveryPlan.Room.pongTimeout
    private var lastPing: Duration?
    private var awaitsPong = false
    private var roundTrip: Duration = .zero

    mutating func joined(_ join: LiveKitJoinResponse) -> [RoomAction] {
        guard join.pingInterval > 0 else { return [] }
        let interval = Duration.seconds(min(max(join.pingInterval, 1), 60))
        self.interval = interval
        timeout = .seconds(min(max(join.pingTimeout, 5), 120))
        return [.schedule(.ping, after: interval)]
    }

    /// The signalling connection is lost.
    mutating func lost() -> [RoomAction] {
        awaitsPong = false
        return [.cancel(.ping), .cancel(.pong)]
    }

    /// Another signalling connection replaces the lost one.
    func resumed() -> [RoomAction] { interval.map { [.schedule(.ping, after: $0)] } ?? [] }

    mutating func messageArrived() -> [RoomAction] {
        exchange(&awaitsPong, with: false) ? [.cancel(.pong)] : []
    }

    mutating func ping(_ now: Duration) -> [RoomAction] {
        guard let interval else { return [] }
        // The timeout counts from the first ping without a reply.
        let limit: [RoomAction] = awaitsPong ? [] : [.schedule(.pong, after: timeout)]
        lastPing = now
        awaitsPong = true
        let request = LiveKitPing.with {
            $0.timestamp = Self.milliseconds(now)
            $0.rtt = Self.milliseconds(roundTrip)
        }
        return [.send(.pingReq(request))] + limit + [.schedule(.ping, after: interval)]
    }

    mutating func received(_ pong: LiveKitPong, _ now: Duration) {
        guard let lastPing, Self.milliseconds(lastPing) == pong.lastPingTimestamp else { return }
        roundTrip = max(now - lastPing, .zero)
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds &* 1000 &+ attoseconds / 1_000_000_000_000_000
    }
}
