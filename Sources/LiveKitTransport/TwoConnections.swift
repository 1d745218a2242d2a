// Two peer connections, for a room whose server does not know `/rtc/v1`: the publisher, for which we make the offers, the
// first one when the server knows our track, and the subscriber, for which the server makes one whenever our subscriptions
// change. A viewer has a subscriber only.
//
// An adapter: what only such rooms need is here, to be deleted one day with `RoomMachine.two`, the event `answerMade` and the
// action `makeAnswer`. For all others a subscriber is one more connection in a list.
import DecartProtocol
import DecartSession
import LiveKitProtocol
import Log
import RTP
import Synchronization
import WebRTCTransport

struct TwoConnections: Sendable {
    /// HTTP status codes of a server that does not know the request for one connection, and of servers and proxies that
    /// do not take its long URL.
    static let statuses = [404, 405, 414, 431, 501]

    /// The server sends its media on the subscriber from the start.
    var needsSubscriber = true

    /// The connections that a stay waits for.
    func needed(_ desired: DesiredMedia, publishes: Bool) -> Set<LiveKitSignalTarget> {
        let receives = needsSubscriber || !publishes
        let sends = publishes && (desired.video || !receives)
        return (sends ? [.publisher] : Set()).union(receives ? [.subscriber] : [])
    }

    /// The parameters of the signalling connection.
    static func query(_ request: LiveKitJoinRequest, _ takesTrailers: Bool) -> [(name: String, value: String)] {
        var items = [
            (name: "protocol", value: "\(RoomURL.protocolVersion)"), ("sdk", "cpp"), ("version", RoomURL.version),
            ("auto_subscribe", "0"), ("adaptive_stream", "0"),
        ]
        if takesTrailers { items.append(("capabilities", "CAP_PACKET_TRAILER")) }
        if request.reconnect {
            let reason = "\(request.reconnectReason.varint)"
            items += [("reconnect", "1"), ("sid", request.participantSid), ("reconnect_reason", reason)]
        }
        return items
    }

    /// - Parameter publisher: nil for a viewer.
    static func peers(
        _ peer: PeerConnectionConfiguration, publisher: PeerConnectionConfiguration?
    ) -> [(LiveKitSignalTarget, PeerConnectionConfiguration)] {
        var receiving = peer
        (receiving.direction, receiving.acceptsDataChannels) = (.recvonly, true)
        receiving.usableCodecs = receiving.usableCodecs ?? Set(VideoCodec.decodable)
        let subscriber = (LiveKitSignalTarget.subscriber, receiving)
        return publisher.map { [(.publisher, $0), subscriber] } ?? [subscriber]
    }

    // MARK: Memory

    /// Hosts that took a request for two connections after they had refused one. The process remembers them.
    private static let hosts = Mutex<Set<String>>([])
    private static let maximumCount = 64

    static func areUsed(at url: ServiceURL) -> Bool { hosts.withLock { $0.contains(url.http.hostHeader) } }

    static func remember(_ url: ServiceURL) {
        hosts.withLock { if $0.count < maximumCount { $0.insert(url.http.hostHeader) } }
    }
}

extension RoomConnection {
    func answer(_ offer: String, _ id: UInt32) {
        guard let subscriber = receiver else { return }
        let answer: String
        do throws(PeerConnectionError) {
            subscriber.setMedia(video: .recvonly, audio: machine.desired.audio ? .recvonly : nil)
            answer = try subscriber.createAnswer(to: offer, wants: machine.isWanted)
        } catch {
            guard error.code == .rejected else { return handle(.peer(.answerFailed(SessionError(error)))) }
            // The offer holds other participants' media or none; the next one may hold the transformed media.
            return configuration.logger.warning("ignored an offer without usable media: \(error.message)")
        }
        // Emit this before the answer is sent, so that the pipeline exists when the first packet arrives.
        if subscriber.negotiatedCodec != nil || subscriber.audioDirection != nil { emit(.subscribed) }
        handle(.peer(.answerMade(sdp: answer, offer: id)))
    }
}
