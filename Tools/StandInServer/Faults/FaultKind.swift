// The catalogue of faults. `table` has what a user sees of each, and when it acts; each is implemented beside the code
// that it affects. docs/FAULTS.md describes what a client sees.
import DecartProtocol

package enum FaultKind: Sendable, Hashable {
    case refuse, rstOnAccept
    case tls(Certificate)
    /// The answer takes the place of the upgrade.
    case http(HTTPAnswer)
    case slow(Phase)
    case endlessHeaders
    case noFirstMessage
    case error(String)
    case errorOfType
    case queue(Queue)
    case close(CloseCode, Moment)
    case dropTCP, noPong, mute, pingFlood
    case ack(Ack)
    case badJSON(JSON)
    case ws(Frame)
    case sdp(Description)
    case ice(Candidates)
    case dtls(Handshake)
    case media(Media)
    case room(RoomFault)
    case sessionLimit, generationEnded, generationRestart

    package enum Certificate: Sendable { case expired, host, ca, old }
    package enum Phase: Sendable { case tls, upgrade, frame }
    package enum Queue: Sendable { case n, forever, jump }
    package enum CloseCode: UInt16, Sendable, CaseIterable {
        case goingAway = 1001
        case policyViolation = 1008
        case internalError = 1011
        case serviceRestart = 1012
        case tryAgainLater = 1013
        case application = 4001
    }
    package enum Moment: Sendable { case join, connected, time }
    package enum Ack: Sendable { case none, late, twice, wrong, fail }
    package enum JSON: Sendable { case depth, size, utf8, type }
    package enum Frame: Sendable { case rsv, opcode, masked, fragments, hugeLength }
    package enum Description: Sendable { case bad, huge, noFingerprint, badFingerprint, otherCodec }
    package enum Candidates: Sendable { case none, late, bad, tcpOnly }
    package enum Handshake: Sendable { case silent, flood, oldVersion }
    package enum Media: Sendable { case silent, freeze, garbage, replay, wrongSSRC, capsChange }
    package enum RoomFault: Sendable {
        case slowInfo, tokenRefused, noCandidates, leaveDisconnect, leaveResume, leaveReconnect, leaveMigrate, muteVideo
        case cut, resumeRefused, resumeSilent, restart
        case pause, muteOutput, secondTrack, secondServer, codecChange, alertFirst, migrate
    }

    /// The stage at which a fault acts, which decides how it can be selected.
    package enum Scope: Sendable {
        /// Acts on the listening sockets, so that no single connection can select it.
        case listener
        /// Acts before the request is read, so that the request's URL cannot select it.
        case transport
        /// Acts between the request and the WebSocket.
        case upgrade
        /// Acts on the control channel of an open session; can also be injected into a running one.
        case session
        /// Acts on the session's media; can also be injected.
        case media
    }

    private struct Entry {
        let kind: FaultKind
        let name: String
        let keys: [Fault.Key]
        let summary: String

        init(_ kind: FaultKind, _ name: String, _ keys: [Fault.Key], _ summary: String) {
            (self.kind, self.name, self.keys, self.summary) = (kind, name, keys, summary)
        }

        init(_ kind: FaultKind, _ name: String, _ summary: String) { self.init(kind, name, [], summary) }
    }

    // Parts of summaries.
    private static let lasting = " from at= seconds (3) after the first, for= seconds long (else for ever)"
    private static let joined = " at= seconds (5) after the client joined"
    private static let held = "\(joined), for for= seconds (else for ever)"

    /// In the order in which a connection meets the faults. The names are part of users' scripts.
    private static let table: KeyValuePairs<Scope, [Entry]> = [
        .listener: [
            Entry(
                .refuse, "refuse", [.at, .for],
                "the port is closed: connections are refused, from at= for for= seconds (else until changed)")
        ],
        .transport: [
            Entry(.rstOnAccept, "rst_on_accept", "connections are reset as soon as they are accepted"),
            Entry(.tls(.expired), "tls_bad_expired", "wss: a certificate that has expired"),
            Entry(.tls(.host), "tls_bad_host", "wss: a certificate for another host"),
            Entry(.tls(.ca), "tls_bad_ca", "wss: a certificate of an unknown authority"),
            Entry(.tls(.old), "tls_bad_old", "wss: TLS 1.1 and nothing newer"),
            Entry(
                .slow(.tls), "slow_tls", [.interval],
                "wss: one byte of the handshake is sent every interval= seconds (1)"),
        ],
        .upgrade: [
            Entry(.http(.page(200)), "http_200html", "HTTP 200 and a login page"),
            Entry(.http(.redirect(301)), "http_301", "a redirect to another host"),
            Entry(.http(.redirect(302)), "http_302", "a redirect to another host"),
            Entry(.http(HTTPAnswer(400, detail: "Invalid request")), "http_400", "HTTP 400"),
            Entry(.http(HTTPAnswer(401, "invalid api key")), "http_401", "HTTP 401, invalid api key"),
            Entry(.http(HTTPAnswer(402, detail: "Insufficient credits")), "http_402", "HTTP 402, insufficient credits"),
            Entry(.http(HTTPAnswer(403, "permission denied")), "http_403", "HTTP 403, permission denied"),
            Entry(.http(HTTPAnswer(404, "not found")), "http_404", "HTTP 404"),
            Entry(.http(HTTPAnswer(410, detail: "This model has been removed")), "http_410", "HTTP 410"),
            Entry(.http(.fieldRequired), "http_422", "HTTP 422 with a list of invalid fields"),
            Entry(
                .http(HTTPAnswer(429, "too many requests")), "http_429", [.delay],
                "HTTP 429 with Retry-After: delay= seconds (5)"),
            Entry(.http(HTTPAnswer(500, "internal error")), "http_500", "HTTP 500"),
            Entry(
                .http(HTTPAnswer(503, "service unavailable")), "http_503", [.delay],
                "HTTP 503 with Retry-After: delay= seconds (5)"),
            Entry(.http(.page(511)), "http_511", "HTTP 511 and a login page"),
            Entry(
                .slow(.upgrade), "slow_upgrade", [.interval],
                "one byte of the response to the upgrade is sent every interval= seconds (1)"),
            Entry(.endlessHeaders, "endless_headers", "the header fields of the response never end"),
        ],
        .session: [
            Entry(
                .slow(.frame), "slow_frame", [.interval],
                "once the WebSocket is open, one byte is sent every interval= seconds (1)"),
            Entry(.noFirstMessage, "no_first_message", "status and session id are not sent"),
            Entry(
                .error("invalid api key"), "error_permanent", [.at],
                "error \"invalid api key\" at= seconds (0) after opening"),
            Entry(
                .error("internal error, try again"), "error_transient", [.at],
                "error \"internal error, try again\" at= seconds (0)"),
            Entry(
                .error("frame 14012 could not be decoded"), "error_decoy401", [.at],
                "error \"frame 14012 could not be decoded\" at= seconds (0)"),
            Entry(
                .errorOfType, "error_type", [.at, .type, .reason, .delay],
                "error with error_type type= (internal_error), the text reason= and, if set, retry_after delay=, "
                    + "at= seconds (0); after capacity, close 1013; type= is one of "
                    + ErrorTypes.all.joined(separator: ", ")),
            Entry(
                .queue(.n), "queue_n", [.n, .interval],
                "a queue of n= places (3), one every interval= seconds (1), then ready"),
            Entry(
                .queue(.forever), "queue_forever", [.n, .interval],
                "place n= (12) in the queue, with a message every interval= seconds (1), for ever"),
            Entry(
                .queue(.jump), "queue_jump", [.n, .interval], "places in the queue that jump up and down, then ready"),
        ],
        .session: closing,
        .session: [
            Entry(.dropTCP, "drop_tcp_at_T", [.at], "TCP reset at= seconds (5) after opening"),
            Entry(.noPong, "no_pong", [.at], "pings get no pong from at= seconds (0)"),
            Entry(
                .mute, "mute", [.at], "nothing more is sent on the control channel from at= seconds (5); media go on"),
            Entry(.pingFlood, "ping_flood", [.at, .n], "n= pings (50000), 10000 a second, from at= seconds (0)"),
            Entry(.ack(.none), "ack_none", [.skip], "acknowledgements are not sent, except for the first skip= (0)"),
            Entry(
                .ack(.late), "ack_late", [.delay, .skip],
                "acknowledgements are sent delay= seconds (20) late, after the first skip= (0)"),
            Entry(.ack(.twice), "ack_twice", [.skip], "acknowledgements are sent twice"),
            Entry(.ack(.wrong), "ack_wrong", [.skip], "acknowledgements name another prompt"),
            Entry(.ack(.fail), "ack_fail", [.skip], "prompts and images are rejected, after the first skip= (0)"),
            Entry(.badJSON(.depth), "bad_json_depth", [.at], "a message nested 100000 deep, at= seconds (0)"),
            Entry(.badJSON(.size), "bad_json_size", [.at], "a message of 2 MiB, at= seconds (0)"),
            Entry(.badJSON(.utf8), "bad_json_utf8", [.at], "a text frame that is not UTF-8, at= seconds (0)"),
            Entry(
                .badJSON(.type), "bad_json_type", [.at],
                "messages with unknown types and fields of wrong types, at= seconds (0)"),
            Entry(.ws(.rsv), "ws_rsv", [.at], "a frame with a reserved bit, at= seconds (0)"),
            Entry(.ws(.opcode), "ws_opcode", [.at], "a frame with a reserved opcode, at= seconds (0)"),
            Entry(.ws(.masked), "ws_masked", [.at], "a masked frame, at= seconds (0)"),
            Entry(
                .ws(.fragments), "ws_fragments", [.at, .n],
                "a message of n= one-byte fragments (0: without end), at= seconds (0)"),
            Entry(
                .ws(.hugeLength), "ws_huge_len", [.at, .n],
                "a frame that announces n= bytes (2^63-1), at= seconds (0)"),
            Entry(.sdp(.bad), "sdp_bad", "an answer that is no SDP"),
            Entry(.sdp(.huge), "sdp_huge", [.n], "an answer of n= bytes (524288)"),
            Entry(.sdp(.noFingerprint), "sdp_no_fingerprint", "an answer without a fingerprint"),
            Entry(.sdp(.badFingerprint), "sdp_bad_fingerprint", "an answer with another certificate's fingerprint"),
            Entry(.sdp(.otherCodec), "sdp_other_codec", "an answer with a codec that was not offered"),
            Entry(.ice(.none), "ice_none", "candidates are neither sent nor accepted"),
            Entry(.ice(.late), "ice_late", [.delay], "candidates are sent and added delay= seconds (5) late"),
            Entry(.ice(.bad), "ice_bad_candidate", "malformed candidates before the good ones"),
            Entry(.ice(.tcpOnly), "ice_tcp_only", "TCP candidates only"),
        ],
        .media: [
            Entry(.dtls(.silent), "dtls_silent", "ICE connects, DTLS stays silent"),
            Entry(.dtls(.flood), "dtls_flood", "ICE connects, then malformed DTLS records, 10000 a second for 5 s"),
            Entry(.dtls(.oldVersion), "dtls_old_version", "ICE connects, then a DTLS 1.0 handshake"),
            Entry(.media(.silent), "media_silent", [.at, .for], "no frames\(lasting)"),
            Entry(.media(.freeze), "media_freeze", [.at, .for], "the same frame\(lasting)"),
            Entry(.media(.garbage), "media_garbage", [.at, .for], "damaged frames\(lasting)"),
            Entry(
                .media(.replay), "media_replay", [.n],
                "ICE and DTLS connect, then each SRTP packet is sent n= times (3); no valid frames"),
            Entry(.media(.wrongSSRC), "media_wrong_ssrc", "packets with another SSRC than in the answer"),
            Entry(
                .media(.capsChange), "media_caps_change", [.at],
                "frames of half the size from at= seconds (3) after the first"),
        ],
        .session: [
            Entry(.room(.slowInfo), "room_info_slow", [.delay], "livekit_room_info is sent delay= seconds (20) late"),
            Entry(
                .room(.tokenRefused), "room_token_refused", "the room rejects the token of livekit_room_info with 401"),
            Entry(.room(.noCandidates), "room_ice_none", "no candidates in the room, in either direction"),
            Entry(
                .room(.leaveDisconnect), "room_leave_disconnect", [.at], "the room sends leave, DISCONNECT,\(joined)"),
            Entry(
                .room(.leaveResume), "room_leave_resume", [.at],
                "the room sends leave, RESUME,\(joined); it may resume within 5 s"),
            Entry(.room(.leaveReconnect), "room_leave_reconnect", [.at], "the room sends leave, RECONNECT,\(joined)"),
            Entry(
                .room(.muteVideo), "room_mute", [.at, .for],
                "the room mutes the client's video at= seconds (5) after it joined, for for= seconds (else until unmuted)"
            ),
            Entry(
                .room(.leaveMigrate), "room_leave_migrate", [.at],
                "the room sends leave, RESUME, with another URL of this stand-in,\(joined)"),
            Entry(
                .room(.cut), "room_cut", [.at, .for, .n, .interval],
                "the room's signalling connections are reset\(joined), n= times (1) every interval= seconds (1), "
                    + "and refused with 503 for for= seconds (0); media go on, and clients may resume"),
            Entry(.room(.resumeRefused), "room_resume_refused", "the room refuses to resume: leave, RECONNECT"),
            Entry(.room(.resumeSilent), "room_resume_silent", "the room does not answer a resume"),
            Entry(
                .room(.restart), "room_restart", [.at],
                "the room resets its connection and ends its media\(joined); it may join again"),
            Entry(.room(.pause), "room_pause", [.at, .for], "the room pauses the transformed video\(held)"),
            Entry(.room(.muteOutput), "room_mute_output", [.at, .for], "the service mutes its video\(held)"),
            Entry(
                .room(.secondTrack), "room_second_track", [.at, .for],
                "the service publishes a second video, magenta,\(held)"),
            Entry(
                .room(.secondServer), "room_second_server", [.at, .for],
                "another inference server publishes magenta video\(held), and leaves"),
            Entry(
                .room(.codecChange), "room_codec_change", [.at, .codec],
                "the transformed video goes on in codec= (vp8, h264, vp9) on the same m-line\(joined)"),
            Entry(
                .room(.alertFirst), "room_alert_first", [.at],
                "the room closes its media\(joined), and sends leave, DISCONNECT, 0.1 s later"),
            Entry(
                .room(.migrate), "room_migrate", [.at],
                "the room closes its media and its signalling (1000) without a leave\(joined), as for another server; "
                    + "it may join again"),
            Entry(
                .sessionLimit, "session_limit_at_T", [.at],
                "generation_ended (timeout) and close 1000 at= seconds (10) after opening"),
            Entry(
                .generationEnded, "generation_ended", [.at, .reason],
                "generation_ended at= seconds (5), reason= (insufficient_credits); media stop, the session continues"),
            Entry(
                .generationRestart, "generation_restart", [.at, .delay, .reason, .output],
                "generation_ended at= seconds (5), reason= (timeout), and generation_started delay= seconds (5) later; "
                    + "output= selects how the output returns: \(Fault.Output.allCases.map(\.rawValue).joined(separator: ", "))"
            ),
        ],
    ]

    private static let closing: [Entry] = CloseCode.allCases.flatMap { code in
        let name = "close_\(code.rawValue)"
        let summary = "close \(code.rawValue)"
        return [
            Entry(.close(code, .join), "\(name)_at_join", [.reason], "\(summary) as soon as the WebSocket is open"),
            Entry(.close(code, .connected), "\(name)_at_connected", [.reason], "\(summary) after the first frame"),
            Entry(.close(code, .time), "\(name)_at_T", [.at, .reason], "\(summary) at= seconds (5) after opening"),
        ]
    }

    package static let all: [FaultKind] = table.flatMap { $0.value.map(\.kind) }
    private static let byName = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    private static let byKind = Dictionary(
        table.flatMap { scope, entries in entries.map { ($0.kind, (scope: scope, entry: $0)) } },
        uniquingKeysWith: { first, _ in first })

    package init?(name: some StringProtocol) {
        guard let kind = Self.byName[String(name)] else { return nil }
        self = kind
    }

    package var name: String { Self.byKind[self]?.entry.name ?? "" }

    /// Keys that this fault accepts, in addition to `count` and `after`.
    package var keys: [Fault.Key] { Self.byKind[self]?.entry.keys ?? [] }

    /// A short description for the help text.
    package var summary: String { Self.byKind[self]?.entry.summary ?? "" }

    package var scope: Scope { Self.byKind[self]?.scope ?? .session }

    /// The list of all faults in two columns, whose lines the help wraps.
    package static var help: String {
        let width = (all.map(\.name.count).max() ?? 0) + 4
        return all.map { kind in
            let name = "  " + kind.name
            return name + String(repeating: " ", count: width - name.count) + kind.summary
        }.joined(separator: "\n")
    }

    /// True if the fault can be injected into a running session.
    package var isInjectable: Bool { scope == .session || scope == .media }
}
