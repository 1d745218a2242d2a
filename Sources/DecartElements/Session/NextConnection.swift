// A connection to the service for the process's next session, whose control channel then needs no round trips for TCP and
// TLS, as browsers preconnect. Nothing is requested over it, and it closes by itself.
import DecartProtocol
import EventLoopThreads
import ICE
import Signalling
import Synchronization
import WebRTCTransport

/// Any thread may call it.
final class NextConnection: Sendable {
    static let shared = NextConnection()

    /// A program that exits after its session, or begins another one at once, makes none; and the session's first frames
    /// have the path for themselves.
    private static let delay = Duration.milliseconds(500)

    /// Two sessions whose values of these are equal can use the same connection.
    private struct Way: Equatable {
        var place: ServerPlace
        var trust: TLSTrust
        var proxy: ProxyURL?
        var source: LocalEndpoint?

        init(_ plan: SessionPlan) {
            (place, trust, proxy) = (ServerPlace(plan.base), plan.trust, plan.route.proxy)
            source = plan.direct.connection.network.endpoint
        }
    }

    private struct Entry {
        var way: Way
        var connection: EarlyConnection
        var end: Duration
    }

    /// One in the process, whatever the number of elements.
    private let entry = Mutex<Entry?>(nil)

    /// Makes one soon, unless there is one.
    func prepare(for plan: SessionPlan) {
        guard plan.subscribeToken == nil else { return }
        let way = Way(plan)
        let next = Entry(
            way: way,
            connection: EarlyConnection(
                to: way.place, trust: plan.trust, route: plan.route, refusesLocal: false, isAwaited: false),
            end: monotonicTime + Self.delay + EarlyConnection.lifetime)
        let (isNew, former) = entry.withLock { entry -> (Bool, EarlyConnection?) in
            if let entry, entry.way == way, monotonicTime < entry.end { return (false, nil) }
            return (true, exchange(&entry, with: next)?.connection)
        }
        former?.close()
        if isNew { next.connection.open(after: Self.delay) }
    }

    /// Returns one at most once.
    func take(for plan: SessionPlan) -> EarlyConnection? {
        guard plan.subscribeToken == nil else { return nil }
        let way = Way(plan)
        return entry.withLock { entry in entry?.way == way ? entry.take()?.connection : nil }
    }
}
