/// Decides about the requests of an RTSP client that follows redirects by itself, as GStreamer's does without any limit: where
/// they may go, and whether the URL's user name and password may go with them.
package struct RTSPRedirects: Sendable, Equatable {
    package enum Verdict: Sendable, Equatable {
        case allowed(withCredentials: Bool)
        /// A sentence without subject and final point.
        case refused(String)
    }

    private static let maximumRedirects = 3
    /// Two requests and their answers to a challenge for each of four servers, and as many again.
    private static let maximumRequests = 32

    private let url: RTSPURL
    private var current: RTSPURL
    private var location: String
    private var redirects = 0
    private var requests = 0
    private var isDescribed = false
    package private(set) var refusal: String?

    package init(_ url: RTSPURL) {
        (self.url, current, location) = (url, url, url.location.reveal())
    }

    /// The host of the latest redirect to another origin.
    package var otherHost: String? { current.hasOrigin(of: url) ? nil : current.host }

    /// - Parameter location: the URL at which the client is now.
    package mutating func request(at location: String) -> Verdict {
        if refusal == nil { refusal = reasonToRefuse(location) }
        return refusal.map(Verdict.refused) ?? .allowed(withCredentials: otherHost == nil)
    }

    /// The camera has described its streams, and may have named another URL for their control.
    package mutating func described(at location: String) {
        isDescribed = true
        self.location = location
    }

    private mutating func reasonToRefuse(_ location: String) -> String? {
        if !isDescribed { requests += 1 }
        guard location != self.location else {
            // A redirect to the same URL, or to an unusable one.
            return requests > Self.maximumRequests ? "it redirects too often" : nil
        }
        guard !isDescribed else { return "it redirects while it plays, which is not followed" }
        redirects += 1
        guard redirects <= Self.maximumRedirects else { return "it redirects too often" }
        guard let next = try? RTSPURL(location), next.isSecure || !current.isSecure else {
            return "it redirects to an unusable address"
        }
        // Services of this machine and of its link often trust their callers.
        guard next.host == url.host || url.isLocal || !next.isLocal else {
            return "it redirects to \(next.host), which is this machine or on its link"
        }
        (current, self.location) = (next, location)
        return nil
    }
}
