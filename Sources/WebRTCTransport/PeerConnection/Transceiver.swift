import RTP

/// An m-line of the session (RFC 8829 section 3.4.1). It keeps its index. All of one kind share an RTP session.
struct Transceiver: Sendable {
    enum Content: Equatable, Sendable {
        case media(MediaKind)
        case application
        case other(String)
    }
    let content: Content
    let mid: String
    /// The directions that it may be used for.
    var role: MediaDirection
    /// Our direction in the latest offer.
    var direction = MediaDirection.inactive
    var isRefused = false
    /// nil: not negotiated yet, refused, or no media.
    var negotiated: NegotiatedMedia?

    var kind: String {
        switch content {
        case .media(let kind): kind.rawValue
        case .application: "application"
        case .other(let kind): kind
        }
    }
}

extension [NegotiatedMedia] {
    /// The negotiated media of the video's RTP session.
    var video: NegotiatedVideo? {
        reduce(nil) { whole, media in
            guard case .video(let next) = media else { return whole }
            return whole?.united(with: next) ?? next
        }
    }

    /// The negotiated media of the audio's RTP session.
    var audio: NegotiatedAudio? {
        reduce(nil) { whole, media in
            guard case .audio(let next) = media else { return whole }
            return whole?.united(with: next) ?? next
        }
    }
}
