// Pings of a room's signalling connection, as a value: any message from the server shows that it is alive.
import LiveKitProtocol
import RTP
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
        interval = .seconds(min(max(join.pingInterval, 1), 60))
        timeout = .seconds(min(max(join.pingTimeout, 5), 120))
        return resumed()
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
            ($0.timestamp, $0.rtt) = (now.inMicroseconds / 1000, roundTrip.inMicroseconds / 1000)
        }
        return [.send(.pingReq(request))] + limit + [.schedule(.ping, after: interval)]
    }

    mutating func received(_ pong: LiveKitPong, _ now: Duration) {
        guard let lastPing, lastPing.inMicroseconds / 1000 == pong.lastPingTimestamp else { return }
        roundTrip = max(now - lastPing, .zero)
    }
}
