// The catalogue of faults: their names and when they act. Each fault is implemented beside the code that it affects;
// docs/FAULTS.md describes what a client sees.

package enum FaultKind: Sendable, Hashable {
    case refuse, rstOnAccept
    case tls(Certificate)
    case http(Answer)
    case slow(Phase)
    case endlessHeaders
    case noFirstMessage
    case error(Words)
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

    package enum Certificate: String, Sendable, CaseIterable { case expired, host, ca, old }
    package enum Answer: String, Sendable, CaseIterable {
        case page = "200html"
        case movedPermanently = "301"
        case found = "302"
        case badRequest = "400"
        case unauthorized = "401"
        case paymentRequired = "402"
        case forbidden = "403"
        case notFound = "404"
        case gone = "410"
        case unprocessable = "422"
        case tooManyRequests = "429"
        case internalError = "500"
        case unavailable = "503"
        case loginRequired = "511"
    }
    package enum Phase: String, Sendable, CaseIterable { case tls, upgrade, frame }
    package enum Words: String, Sendable, CaseIterable { case permanent, transient, decoy401, type }
    package enum Queue: String, Sendable, CaseIterable { case n, forever, jump }
    package enum CloseCode: UInt16, Sendable, CaseIterable {
        case goingAway = 1001
        case internalError = 1011
        case serviceRestart = 1012
        case tryAgainLater = 1013
        case application = 4001
    }
    package enum Moment: String, Sendable, CaseIterable {
        case join, connected
        case time = "T"
    }
    package enum Ack: String, Sendable, CaseIterable { case none, late, twice, wrong, fail }
    package enum JSON: String, Sendable, CaseIterable { case depth, size, utf8, type }
    package enum Frame: String, Sendable, CaseIterable {
        case rsv, opcode, masked, fragments
        case hugeLength = "huge_len"
    }
    package enum Description: String, Sendable, CaseIterable {
        case bad, huge
        case noFingerprint = "no_fingerprint"
        case badFingerprint = "bad_fingerprint"
        case otherCodec = "other_codec"
    }
    package enum Candidates: String, Sendable, CaseIterable {
        case none, late
        case bad = "bad_candidate"
        case tcpOnly = "tcp_only"
    }
    package enum Handshake: String, Sendable, CaseIterable {
        case silent, flood
        case oldVersion = "old_version"
    }
    package enum Media: String, Sendable, CaseIterable {
        case silent, freeze, garbage, replay
        case wrongSSRC = "wrong_ssrc"
        case capsChange = "caps_change"
    }
    package enum RoomFault: String, Sendable, CaseIterable {
        case slowInfo = "info_slow"
        case tokenRefused = "token_refused"
        case noCandidates = "ice_none"
        case leaveDisconnect = "leave_disconnect"
        case leaveResume = "leave_resume"
        case leaveReconnect = "leave_reconnect"
        case muteVideo = "mute"
        case leaveMigrate = "leave_migrate"
        case cut
        case resumeRefused = "resume_refused"
        case resumeSilent = "resume_silent"
        case restart

        /// True if the fault acts a set time after the client joined the room.
        var actsByTheClock: Bool {
            switch self {
            case .slowInfo, .tokenRefused, .noCandidates, .resumeRefused, .resumeSilent: false
            case .leaveDisconnect, .leaveResume, .leaveReconnect, .leaveMigrate, .muteVideo, .cut, .restart: true
            }
        }
    }

    /// All faults, in the order in which a connection meets them.
    package static let all: [FaultKind] = {
        var all: [FaultKind] = [.refuse, .rstOnAccept]
        all += Certificate.allCases.map { .tls($0) }
        all.append(.slow(.tls))
        all += Answer.allCases.map { .http($0) }
        all += [.slow(.upgrade), .endlessHeaders, .slow(.frame), .noFirstMessage]
        all += Words.allCases.map { .error($0) }
        all += Queue.allCases.map { .queue($0) }
        for code in CloseCode.allCases { all += Moment.allCases.map { .close(code, $0) } }
        all += [.dropTCP, .noPong, .mute, .pingFlood]
        all += Ack.allCases.map { .ack($0) }
        all += JSON.allCases.map { .badJSON($0) }
        all += Frame.allCases.map { .ws($0) }
        all += Description.allCases.map { .sdp($0) }
        all += Candidates.allCases.map { .ice($0) }
        all += Handshake.allCases.map { .dtls($0) }
        all += Media.allCases.map { .media($0) }
        all += RoomFault.allCases.map { .room($0) }
        all += [.sessionLimit, .generationEnded, .generationRestart]
        return all
    }()

    private static let byName = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })

    package init?(name: some StringProtocol) {
        guard let kind = Self.byName[String(name)] else { return nil }
        self = kind
    }

    package var name: String {
        switch self {
        case .refuse: "refuse"
        case .rstOnAccept: "rst_on_accept"
        case .tls(let certificate): "tls_bad_" + certificate.rawValue
        case .http(let answer): "http_" + answer.rawValue
        case .slow(let phase): "slow_" + phase.rawValue
        case .endlessHeaders: "endless_headers"
        case .noFirstMessage: "no_first_message"
        case .error(let words): "error_" + words.rawValue
        case .queue(let queue): "queue_" + queue.rawValue
        case .close(let code, let moment): "close_\(code.rawValue)_at_\(moment.rawValue)"
        case .dropTCP: "drop_tcp_at_T"
        case .noPong: "no_pong"
        case .mute: "mute"
        case .pingFlood: "ping_flood"
        case .ack(let ack): "ack_" + ack.rawValue
        case .badJSON(let json): "bad_json_" + json.rawValue
        case .ws(let frame): "ws_" + frame.rawValue
        case .sdp(let description): "sdp_" + description.rawValue
        case .ice(let candidates): "ice_" + candidates.rawValue
        case .dtls(let handshake): "dtls_" + handshake.rawValue
        case .media(let media): "media_" + media.rawValue
        case .room(let room): "room_" + room.rawValue
        case .sessionLimit: "session_limit_at_T"
        case .generationEnded: "generation_ended"
        case .generationRestart: "generation_restart"
        }
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

    package var scope: Scope {
        switch self {
        case .refuse: .listener
        case .rstOnAccept, .tls, .slow(.tls): .transport
        case .http, .slow(.upgrade), .endlessHeaders: .upgrade
        case .slow(.frame), .noFirstMessage, .queue, .error, .close, .dropTCP, .noPong, .mute, .pingFlood, .ack,
            .badJSON, .ws, .sdp, .ice, .room, .sessionLimit, .generationEnded, .generationRestart:
            .session
        case .dtls, .media: .media
        }
    }

    /// True if the fault can be injected into a running session.
    package var isInjectable: Bool { scope == .session || scope == .media }
}
