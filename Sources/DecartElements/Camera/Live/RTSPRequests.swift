// The requests of an `rtspsrc`: where its camera's redirects may lead them, and whether the user name and the password go
// with them. The source follows any redirect by itself, and would take both along.
//
// The handlers run on the source's threads, and live as long as the source.
import DecartProtocol
import GStreamerKit
import Synchronization

final class RTSPRequests: Sendable {
    private struct State {
        var redirects: RTSPRedirects
        /// The source has the user name and the password.
        var hasCredentials = true
    }
    private let credentials: BasicCredentials?
    private let state: Mutex<State>

    /// Gives the source the URL, without its credentials: messages about the progress of the connection name it.
    init(of source: Element, to url: RTSPURL, _ credentials: BasicCredentials?) {
        self.credentials = credentials
        state = Mutex(State(redirects: RTSPRedirects(url)))
        source.set("location", GValueBox(url.location.reveal()))
        Self.set(credentials, of: source)
        let own = source.unowned
        // The result of false drops the request. The source then finds no description, and reports an error.
        source.connect("before-send") { [self] _ in GValueBox(mayRequest(own)) }
        source.connect("select-stream") { [self] _ in
            if let location = own.location { state.withLock { $0.redirects.described(at: location) } }
            return GValueBox(true)
        }
    }

    var redirects: RTSPRedirects { state.withLock(\.redirects) }

    private func mayRequest(_ source: Element) -> Bool {
        guard let location = source.location else { return true }
        let (isAllowed, change) = state.withLock { state -> (Bool, Bool?) in
            guard case .allowed(let withCredentials) = state.redirects.request(at: location) else {
                return (false, nil)
            }
            defer { state.hasCredentials = withCredentials }
            return (true, withCredentials == state.hasCredentials ? nil : withCredentials)
        }
        if let change { Self.set(change ? credentials : nil, of: source) }
        return isAllowed
    }

    private static func set(_ credentials: BasicCredentials?, of source: Element) {
        source.set("user-id", GValueBox(credentials?.user.reveal()))
        source.set("user-pw", GValueBox(credentials?.password.reveal()))
    }
}
