// One viewing of a WHEP server (draft-ietf-wish-whep): POST makes a resource, PATCH adds candidates to it, DELETE removes
// it. Each request has one bounded response. No error contains the URL's path and query, its credentials or the token;
// the server's text is bounded, and redacted.
//
// Everything runs on the network thread unless it says otherwise.
package import DecartProtocol
package import DecartSession
import Dispatch
import EventLoopThreads
import Network

// @unchecked: after init, used only on `thread`.
package final class WHEPResource: @unchecked Sendable {
    package struct Configuration: Sendable {
        package var url: HTTPURL
        /// Goes to the origin of `url` only, as do the URL's credentials, which a token replaces.
        package var token: Secret?
        package var http = HTTPConfiguration()

        package init(url: HTTPURL) { self.url = url }
    }

    private struct Resource {
        /// nil: the server named none of its own.
        var url: HTTPURL?
        var entityTag: String?
    }
    private enum State {
        case new
        case posting
        case open(Resource)
        case patching(Resource)
        case ended
    }

    private static let maximumAnswer = 64 << 10
    private static let maximumRedirects = 3
    private static let maximumEntityTag = 256
    /// Fragments that wait for the POST or a PATCH; each has the candidates of a moment.
    private static let maximumFragments = 32
    private static let longestWait = Duration.seconds(60)

    private let configuration: Configuration
    private let thread = NetworkThread.shared
    private var state = State.new
    private var fragments: [String] = []
    private var takesFragments = true
    /// `end` was called.
    private var isOver = false
    private let done = DispatchGroup()

    package init(_ configuration: Configuration) {
        self.configuration = configuration
    }

    /// Sends the offer. Call it once, from any thread.
    /// - Parameter completion: gets the answer; called at most once, on the network thread, and not after `end`; must
    ///   not block.
    package func start(offer: String, completion: @escaping @Sendable (Result<WHEPAnswer, SessionError>) -> Void) {
        done.enter()
        thread.async {
            guard !self.isOver else { return self.done.leave() }
            self.state = .posting
            self.post(offer, to: self.configuration.url, redirects: 0, completion)
        }
    }

    /// Sends candidates. The server may refuse them: its checks may still find this peer. Any thread.
    package func add(fragment: String) {
        thread.async {
            guard self.takesFragments, self.fragments.count < Self.maximumFragments else { return }
            self.fragments.append(fragment)
            self.patch()
        }
    }

    /// Removes the resource, also one that the server is about to make. Any thread but the network thread.
    /// - Parameter wait: longest time to wait for the server, so that the process does not end before that.
    package func end(wait: Duration) {
        thread.async {
            guard !self.isOver else { return }
            (self.isOver, self.fragments) = (true, [])
            switch self.state {
            case .open(let resource), .patching(let resource): self.remove(resource)
            case .new, .posting, .ended: break
            }
        }
        // Runs after the work above, which may have added a request.
        let queued = DispatchSemaphore(value: 0)
        thread.async { queued.signal() }
        // The caller is the application, which waits for no thread without a limit.
        guard queued.wait(timeout: .now() + .seconds(1)) == .success else { return }
        _ = done.wait(timeout: .now() + .nanoseconds(Int(min(wait, Self.longestWait) / .nanoseconds(1))))
    }

    // MARK: Requests

    private func post(
        _ offer: String, to url: HTTPURL, redirects: Int,
        _ completion: @escaping @Sendable (Result<WHEPAnswer, SessionError>) -> Void
    ) {
        send("POST", to: url, type: "application/sdp", body: offer) { outcome in
            guard case .answer(let head, let body) = outcome else {
                let error = outcome.error(
                    tooLong: "The answer of the WHEP server \(url.host) exceeds the size limit.",
                    timedOut: "The WHEP server \(url.host):\(url.port) did not answer in time.")
                return self.finishPost(.failure(error), completion)
            }
            let status = head.status
            if status == 307 || status == 308, redirects < Self.maximumRedirects, !self.isOver,
                let next = head.fields.first("Location").flatMap(url.resolving)
            {
                return self.post(offer, to: next, redirects: redirects + 1, completion)
            }
            guard (200...201).contains(status) else {
                return self.finishPost(.failure(self.refusal(head, body, url)), completion)
            }
            // Another origin gets no request, because the server would choose the hosts that this one addresses.
            let location = head.fields.first("Location").flatMap(url.resolving)
            let tag = head.fields.first("ETag").flatMap { tag in
                tag.utf8.count <= Self.maximumEntityTag && tag.utf8.allSatisfy { (0x21...0x7E).contains($0) }
                    ? tag : nil
            }
            self.state = .open(
                Resource(url: location.flatMap { $0.hasOrigin(of: url) ? $0 : nil }, entityTag: tag))
            let servers = ICEServerLink.read(head.fields["Link"])
            self.finishPost(
                .success(WHEPAnswer(sdp: String(decoding: body, as: UTF8.self), servers: servers)), completion)
        }
    }

    private func finishPost(
        _ result: Result<WHEPAnswer, SessionError>,
        _ completion: @Sendable (Result<WHEPAnswer, SessionError>) -> Void
    ) {
        defer { done.leave() }
        if case .failure = result { state = .ended }
        guard isOver else {
            completion(result)
            return patch()
        }
        // The viewing has ended meanwhile: the server's resource is not wanted any more.
        if case .open(let resource) = state { remove(resource) }
    }

    private func patch() {
        guard case .open(let resource) = state, let url = resource.url, !isOver, !fragments.isEmpty else { return }
        state = .patching(resource)
        send(
            "PATCH", to: url, type: "application/trickle-ice-sdpfrag", body: fragments.removeFirst(),
            entityTag: resource.entityTag
        ) { outcome in
            guard case .patching(let resource) = self.state else { return }
            self.state = .open(resource)
            // A server without PATCH gets no more of them.
            if case .answer(let head, _) = outcome, (200...299).contains(head.status) {
                self.patch()
            } else {
                (self.takesFragments, self.fragments) = (false, [])
            }
        }
    }

    private func remove(_ resource: Resource) {
        state = .ended
        guard let url = resource.url else { return }
        done.enter()
        send("DELETE", to: url) { _ in self.done.leave() }
    }

    private func send(
        _ method: String, to url: HTTPURL, type: String? = nil, body: String = "", entityTag: String? = nil,
        completion: @escaping @Sendable (HTTPExchange.Outcome) -> Void
    ) {
        var fields = HTTPFields()
        if let type {
            fields.add("Content-Type", type)
            fields.add("Content-Length", String(body.utf8.count))
        }
        if method == "POST" { fields.add("Accept", "application/sdp") }
        if let entityTag { fields.add("If-Match", entityTag) }
        let authorization =
            configuration.token.map { "Bearer \($0.reveal())" } ?? configuration.url.credentials?.authorization.reveal()
        if let authorization, url.hasOrigin(of: configuration.url) { fields.add("Authorization", authorization) }
        let request = HTTPRequest(
            url: url, method: method, fields: fields, body: body, maximumSize: Self.maximumAnswer,
            configuration: configuration.http,
            // Services of this machine and of its link often trust their callers, so a redirect does not lead there.
            refusesLocal: url.host != configuration.url.host && !configuration.url.isLocal)
        HTTPExchange(request, completion: completion).start()
    }

    // MARK: Failures

    private func refusal(_ head: HTTPResponseHead, _ body: [UInt8], _ url: HTTPURL) -> SessionError {
        let status = head.status
        let details = cause(head, body).map { ": \($0)" } ?? ""
        let server = "The WHEP server \(url.host)"
        var error = SessionError(.server, "", stage: .connect, httpStatus: status)
        switch status {
        case 301...303:
            let target = head.fields.first("Location").flatMap(url.resolving)
            let address = target.map { ", to \($0.isSecure ? "https" : "http")://\($0.hostHeader)" } ?? ""
            error.message =
                "\(server) redirects the offer (HTTP \(status)\(address)), which is followed with 307 and 308 alone. Set that "
                + "URL in source=whep:."
        case 300...399:
            error.message = "\(server) redirects to an unusable address, or too often (HTTP \(status))."
        case 401 where !url.hasOrigin(of: configuration.url):
            error.message =
                "The URL redirects to \(url.host), which wants authentication (HTTP 401\(details)). A token or password goes "
                + "to \(configuration.url.host) alone: set the other URL in source=whep:."
        case 401, 403:
            error.message =
                "\(server) rejected the request (HTTP \(status)\(details)). "
                + head.remedy(basic: Self.passwordInURL, bearer: "whep-token")
        case 404, 409, 410:
            error.message = "\(server) has no such stream now (HTTP \(status)\(details)). Check the URL and the camera."
        case 405, 415, 501:
            error.message = "\(server) takes no offers at this path (HTTP \(status)\(details)). Check the URL."
        case 406:
            error.message =
                "\(server) has no codec in common with this host (HTTP 406\(details)). Send H.264, VP8 or VP9."
        case 400, 500:
            error.message =
                "\(server) reported an error (HTTP \(status)\(details)). Perhaps it has no codec in common with this host: "
                + "send H.264 without B-frames, VP8 or VP9, and look at the server's log."
        default:
            error.message = "\(server) reported an error (HTTP \(status)\(details))."
        }
        if status == 429 || status == 503, let seconds = head.fields.first("Retry-After").flatMap({ UInt16($0) }) {
            error.retryAfter = min(.seconds(Int(seconds)), Self.longestWait)
        }
        return error
    }

    /// The text of the body, bounded and redacted.
    private func cause(_ head: HTTPResponseHead, _ body: [UInt8]) -> String? {
        let token = configuration.token.map { [$0] } ?? []
        return head.refusal(in: body).flatMap { configuration.url.redacting($0.text, token)?.printable(limit: 200) }
    }

    private static let passwordInURL = "the user name and password in the URL, source=whep:https://user:password@host/…"
}
