extension FaultKind {
    /// Keys that this fault accepts, in addition to `count` and `after`.
    package var keys: [Fault.Key] {
        switch self {
        case .refuse: [.at, .for]
        case .rstOnAccept, .tls, .noFirstMessage: []
        case .http(.tooManyRequests), .http(.unavailable): [.delay]
        case .http, .endlessHeaders: []
        case .slow: [.interval]
        case .error(.type): [.at, .type, .reason]
        case .error, .dropTCP, .noPong, .mute, .badJSON, .sessionLimit: [.at]
        case .queue: [.n, .interval]
        case .close(_, .time): [.at, .reason]
        case .close: [.reason]
        case .pingFlood: [.at, .n]
        case .ack(.late): [.delay, .skip]
        case .ack: [.skip]
        case .ws(.fragments), .ws(.hugeLength): [.at, .n]
        case .ws: [.at]
        case .sdp(.huge): [.n]
        case .sdp, .dtls: []
        case .ice(.late): [.delay]
        case .ice: []
        case .media(.wrongSSRC): []
        case .media(.replay): [.n]
        case .media(.silent), .media(.freeze), .media(.garbage): [.at, .for]
        case .media: [.at]
        case .room(.slowInfo): [.delay]
        case .room(.tokenRefused), .room(.noCandidates), .room(.resumeRefused), .room(.resumeSilent): []
        case .room(.muteVideo): [.at, .for]
        case .room(.cut): [.at, .for, .n, .interval]
        case .room: [.at]
        case .generationEnded: [.at, .reason]
        case .generationRestart: [.at, .delay, .reason, .output]
        }
    }

    /// A short description for the help text.
    package var summary: String {
        switch self {
        case .refuse: "the port is closed: connections are refused, from at= for for= seconds (else until changed)"
        case .rstOnAccept: "connections are reset as soon as they are accepted"
        case .tls(.expired): "wss: a certificate that has expired"
        case .tls(.host): "wss: a certificate for another host"
        case .tls(.ca): "wss: a certificate of an unknown authority"
        case .tls(.old): "wss: TLS 1.1 and nothing newer"
        case .slow(.tls): "wss: one byte of the handshake is sent every interval= seconds (1)"
        case .http(.page): "HTTP 200 and a login page"
        case .http(.movedPermanently), .http(.found): "a redirect to another host"
        case .http(.badRequest): "HTTP 400"
        case .http(.unauthorized): "HTTP 401, invalid api key"
        case .http(.paymentRequired): "HTTP 402, insufficient credits"
        case .http(.forbidden): "HTTP 403, permission denied"
        case .http(.notFound): "HTTP 404"
        case .http(.gone): "HTTP 410"
        case .http(.unprocessable): "HTTP 422 with a list of invalid fields"
        case .http(.tooManyRequests): "HTTP 429 with Retry-After: delay= seconds (5)"
        case .http(.internalError): "HTTP 500"
        case .http(.unavailable): "HTTP 503 with Retry-After: delay= seconds (5)"
        case .http(.loginRequired): "HTTP 511 and a login page"
        case .slow(.upgrade): "one byte of the response to the upgrade is sent every interval= seconds (1)"
        case .endlessHeaders: "the header fields of the response never end"
        case .slow(.frame): "once the WebSocket is open, one byte is sent every interval= seconds (1)"
        case .noFirstMessage: "status and session id are not sent"
        case .error(.permanent): "error \"invalid api key\" at= seconds (0) after opening"
        case .error(.transient): "error \"internal error, try again\" at= seconds (0)"
        case .error(.decoy401): "error \"frame 14012 could not be decoded\" at= seconds (0)"
        case .error(.type):
            "error with error_type type= (internal_error) and the text reason=, at= seconds (0); type= is one of "
                + ErrorTypes.all.joined(separator: ", ")
        case .queue(.n): "a queue of n= places (3), one every interval= seconds (1), then ready"
        case .queue(.forever): "place n= (12) in the queue, with a message every interval= seconds (1), for ever"
        case .queue(.jump): "places in the queue that jump up and down, then ready"
        case .close(let code, .join): "close \(code.rawValue) as soon as the WebSocket is open"
        case .close(let code, .connected): "close \(code.rawValue) after the first frame"
        case .close(let code, .time): "close \(code.rawValue) at= seconds (5) after opening"
        case .dropTCP: "TCP reset at= seconds (5) after opening"
        case .noPong: "pings get no pong from at= seconds (0)"
        case .mute: "nothing more is sent on the control channel from at= seconds (5); media go on"
        case .pingFlood: "n= pings (50000), 10000 a second, from at= seconds (0)"
        case .ack(.none): "acknowledgements are not sent, except for the first skip= (0)"
        case .ack(.late): "acknowledgements are sent delay= seconds (20) late, after the first skip= (0)"
        case .ack(.twice): "acknowledgements are sent twice"
        case .ack(.wrong): "acknowledgements name another prompt"
        case .ack(.fail): "prompts and images are rejected, after the first skip= (0)"
        case .badJSON(.depth): "a message nested 100000 deep, at= seconds (0)"
        case .badJSON(.size): "a message of 2 MiB, at= seconds (0)"
        case .badJSON(.utf8): "a text frame that is not UTF-8, at= seconds (0)"
        case .badJSON(.type): "messages with unknown types and fields of wrong types, at= seconds (0)"
        case .ws(.rsv): "a frame with a reserved bit, at= seconds (0)"
        case .ws(.opcode): "a frame with a reserved opcode, at= seconds (0)"
        case .ws(.masked): "a masked frame, at= seconds (0)"
        case .ws(.fragments): "a message of n= one-byte fragments (0: without end), at= seconds (0)"
        case .ws(.hugeLength): "a frame that announces n= bytes (2^63-1), at= seconds (0)"
        case .sdp(.bad): "an answer that is no SDP"
        case .sdp(.huge): "an answer of n= bytes (524288)"
        case .sdp(.noFingerprint): "an answer without a fingerprint"
        case .sdp(.badFingerprint): "an answer with another certificate's fingerprint"
        case .sdp(.otherCodec): "an answer with a codec that was not offered"
        case .ice(.none): "candidates are neither sent nor accepted"
        case .ice(.late): "candidates are sent and added delay= seconds (5) late"
        case .ice(.bad): "malformed candidates before the good ones"
        case .ice(.tcpOnly): "TCP candidates only"
        case .dtls(.silent): "ICE connects, DTLS stays silent"
        case .dtls(.flood): "ICE connects, then malformed DTLS records, 10000 a second for 5 s"
        case .dtls(.oldVersion): "ICE connects, then a DTLS 1.0 handshake"
        case .media(.silent): "no frames from at= seconds (3) after the first, for= seconds long (else for ever)"
        case .media(.freeze): "the same frame from at= seconds (3) after the first, for= seconds long (else for ever)"
        case .media(.garbage): "damaged frames from at= seconds (3) after the first, for= seconds long (else for ever)"
        case .media(.replay): "ICE and DTLS connect, then each SRTP packet is sent n= times (3); no valid frames"
        case .media(.wrongSSRC): "packets with another SSRC than in the answer"
        case .media(.capsChange): "frames of half the size from at= seconds (3) after the first"
        case .room(.slowInfo): "livekit_room_info is sent delay= seconds (20) late"
        case .room(.tokenRefused): "the room rejects the token of livekit_room_info with 401"
        case .room(.noCandidates): "no candidates in the room, in either direction"
        case .room(.leaveDisconnect): "the room sends leave, DISCONNECT, at= seconds (5) after the client joined"
        case .room(.leaveResume):
            "the room sends leave, RESUME, at= seconds (5) after the client joined; it may resume within 5 s"
        case .room(.leaveReconnect): "the room sends leave, RECONNECT, at= seconds (5) after the client joined"
        case .room(.muteVideo):
            "the room mutes the client's video at= seconds (5) after it joined, for for= seconds (else until unmuted)"
        case .room(.leaveMigrate):
            "the room sends leave, RESUME, with another URL of this stand-in, at= seconds (5) after the client joined"
        case .room(.cut):
            "the room's signalling connections are reset at= seconds (5) after the client joined, n= times (1) every "
                + "interval= seconds (1), and refused with 503 for for= seconds (0); media go on, and clients may resume"
        case .room(.resumeRefused): "the room refuses to resume: leave, RECONNECT"
        case .room(.resumeSilent): "the room does not answer a resume"
        case .room(.restart):
            "the room resets its connection and ends its media at= seconds (5) after the client joined; it may join again"
        case .sessionLimit: "generation_ended (timeout) and close 1000 at= seconds (10) after opening"
        case .generationEnded:
            "generation_ended at= seconds (5), reason= (insufficient_credits); media stop, the session continues"
        case .generationRestart:
            "generation_ended at= seconds (5), reason= (timeout), and generation_started delay= seconds (5) later; "
                + "output= selects how the output returns: \(Fault.Output.allCases.map(\.rawValue).joined(separator: ", "))"
        }
    }

    /// The list of all faults, wrapped for a terminal of 80 columns.
    package static var help: String {
        let width = (all.map(\.name.count).max() ?? 0) + 4
        return all.map { kind in
            let name = "  " + kind.name
            let indent = String(repeating: " ", count: width)
            return name + indent.dropFirst(name.count) + wrap(kind.summary, 79 - width).joined(separator: "\n" + indent)
        }.joined(separator: "\n")
    }

    private static func wrap(_ text: String, _ width: Int) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = String(word)
            } else if last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
