// Opens a connection to a server, directly or through an HTTP proxy, with or without TLS. Its caller sees a stream that is
// ready for its protocol, and needs to know neither.
package import EventLoopThreads
import Glibc
package import MediaSecurity

/// Where a connection leads, and by which way.
package struct Destination: Sendable {
    package struct Proxy: Sendable {
        package var host: String
        package var port: Int
        /// The value of `Proxy-Authorization`.
        package var authorization: String?

        package init(host: String, port: Int, authorization: String? = nil) {
            (self.host, self.port, self.authorization) = (host, port, authorization)
        }
    }

    /// A host name or an address literal; IPv6 without brackets.
    package var host: String
    package var port: Int
    package var proxy: Proxy?
    package var source: SourceAddresses?
    /// Time for the TCP connection with its lookup, again for the proxy's answer, and again for the TLS handshake.
    package var limit: Duration
    package var resolveLimit: Duration
    /// Decides on each address that the host's name has; a proxy's is not asked for. nil: all are permitted.
    package var permits: (@Sendable (SocketAddress) -> Bool)?

    package init(host: String, port: Int, limit: Duration, resolveLimit: Duration? = nil) {
        (self.host, self.port, self.limit) = (host, port, limit)
        self.resolveLimit = min(limit, resolveLimit ?? limit)
    }

    /// Host and port as in a URL.
    package var authority: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}

/// One attempt to connect. Everything is called on `thread`; the attempt lives until its result.
// @unchecked: used only on `thread`.
package final class Connector: @unchecked Sendable {
    package typealias Completion = (Result<ByteStream, NetworkError>) -> Void

    /// A name server may have thousands of addresses for a name that a peer chooses.
    private static let maximumAddresses = 32
    /// RFC 8305 §5: the time after which the next address is tried beside those that do not answer.
    private static let stagger = Duration.milliseconds(250)

    private let destination: Destination
    private let tls: TLSClientContext?
    private let thread: NetworkThread
    private let onTCP: () -> Void
    private let lookUpHost: (String, @escaping HostLookup.Completion) -> Void
    private var completion: Completion?
    private var addresses: [SocketAddress] = []
    private var attempts: [ByteStream] = []
    private var failures: [NetworkError] = []
    /// The connected one.
    private var stream: ByteStream?
    /// The proxy, if there is one, has opened the tunnel.
    private var isThrough = false
    private var answer = HTTPResponseReader(limits: HTTPLimits(), answersCONNECT: true)
    private var timer: NetworkTimer?
    private var lookupTimer: NetworkTimer?
    private var staggerTimer: NetworkTimer?

    /// - Parameters:
    ///   - tls: nil: no TLS.
    ///   - onTCP: called when TCP is connected: to the proxy, if there is one.
    ///   - completion: called once, not during this call, and not after `cancel`. The stream has no `onEvent` yet; set it
    ///     before the call returns.
    package init(
        to destination: Destination, tls: TLSClientContext?, on thread: NetworkThread,
        lookUpHost: @escaping (String, @escaping HostLookup.Completion) -> Void = HostLookup.resolve,
        onTCP: @escaping () -> Void = {}, completion: @escaping Completion
    ) {
        (self.destination, self.tls, self.thread) = (destination, tls, thread)
        (self.lookUpHost, self.onTCP, self.completion) = (lookUpHost, onTCP, completion)
        thread.later { self.lookUp() }
    }

    /// The proxy is connected, and has not answered yet.
    package var awaitsProxy: Bool { stream != nil && !isThrough }

    /// Closes what is open.
    package func cancel() {
        completion = nil
        release()?.close()
    }

    // MARK: Addresses

    private func lookUp() {
        guard completion != nil else { return }
        timer = thread.later(after: destination.limit) { self.fail(.timedOut) }
        lookupTimer = thread.later(after: destination.resolveLimit) { self.fail(.lookup(.timeout)) }
        lookUpHost(destination.proxy?.host ?? destination.host) { [thread] result in
            thread.async { self.resolved(result) }
        }
    }

    private func resolved(_ result: Result<[SocketAddress], LookupFailure>) {
        guard completion != nil, lookupTimer != nil else { return }
        lookupTimer?.cancel()
        lookupTimer = nil
        guard let port = UInt16(exactly: destination.proxy?.port ?? destination.port) else {
            return fail(.system(EADDRNOTAVAIL))
        }
        switch result {
        case .failure(let failure): fail(.lookup(failure))
        case .success(var found):
            if let permits = destination.permits, destination.proxy == nil { found.removeAll { !permits($0) } }
            guard !found.isEmpty else { return fail(.lookup(.notPermitted)) }
            addresses = Self.alternating(found).prefix(Self.maximumAddresses).map { $0.with(port: port) }
            attemptNext()
        }
    }

    /// RFC 8305 §4: the families in turn, beginning with that of the first address.
    package static func alternating(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let first = addresses.filter { $0.family == addresses.first?.family }
        let second = addresses.filter { $0.family != addresses.first?.family }
        return (0..<max(first.count, second.count)).flatMap { index in
            [first, second].compactMap { $0.indices.contains(index) ? $0[index] : nil }
        }
    }

    private func attemptNext() {
        staggerTimer?.cancel()
        guard completion != nil, stream == nil else { return }
        guard !addresses.isEmpty else {
            if attempts.isEmpty { fail(failures.first { $0 == .system(ECONNREFUSED) } ?? mostTelling) }
            return
        }
        let address = addresses.removeFirst()
        do throws(NetworkError) {
            let source = destination.source
            let descriptor = try Socket.open(address.family, SOCK_STREAM) { descriptor throws(NetworkError) in
                try source?.bind(descriptor, family: address.family)
                try Socket.connect(descriptor, to: address)
            }
            let attempt = ByteStream(taking: descriptor, isConnected: false, on: thread)
            attempts.append(attempt)
            attempt.onEvent = { [unowned attempt] in self.received($0, attempt) }
            attempt.start()
            staggerTimer = thread.later(after: Self.stagger) { self.attemptNext() }
        } catch {
            failures.append(error)
            attemptNext()
        }
    }

    /// The source may have addresses of one family only, which says nothing about the others.
    private var mostTelling: NetworkError {
        failures.last { if case .noSource = $0 { false } else { true } } ?? failures.last ?? .ended
    }

    private func received(_ event: ByteStream.Event, _ attempt: ByteStream) {
        guard completion != nil else { return }
        switch event {
        case .connected where stream == nil: connected(attempt)
        case .ended(let error) where stream == nil:
            attempts.removeAll { $0 === attempt }
            failures.append(error ?? .ended)
            attemptNext()
        case .ended(let error): ended(error)
        case .secured: succeed()
        case .received(let bytes): receiveAnswer(bytes)
        case .connected, .writable: break
        }
    }

    private func connected(_ attempt: ByteStream) {
        stream = attempt
        for other in attempts where other !== attempt { other.close() }
        attempts = []
        timer?.cancel()
        staggerTimer?.cancel()
        onTCP()
        guard completion != nil else { return }
        if destination.proxy == nil { secure() } else { openTunnel() }
    }

    // MARK: The proxy

    private func openTunnel() {
        var fields: HTTPFields = ["Host": destination.authority]
        if let authorization = destination.proxy?.authorization { fields.add("Proxy-Authorization", authorization) }
        // A little shorter than the caller's limit, whose error would not name the proxy.
        timer = thread.later(after: destination.limit * 0.9) { self.fail(.proxy(.silent)) }
        stream?.write(HTTPRequestHead(method: "CONNECT", target: destination.authority, fields: fields).bytes)
    }

    private func receiveAnswer(_ bytes: ArraySlice<UInt8>) {
        answer.append(bytes)
        do throws(HTTPError) {
            while let event = try answer.next() {
                guard case .head(let head) = event else { continue }
                guard (200...299).contains(head.status) else { return fail(.proxy(.refused(status: head.status))) }
                timer?.cancel()
                // A server that speaks first would be one without TLS and HTTP.
                return secure()
            }
        } catch {
            fail(.proxy(.notHTTP))
        }
    }

    // MARK: TLS

    private func secure() {
        isThrough = true
        guard let tls else { return succeed() }
        do throws(TLSError) {
            let session = try TLSSession(client: tls, serverName: destination.host)
            timer = thread.later(after: destination.limit) { self.fail(.handshakeTimedOut) }
            stream?.secure(session)
        } catch {
            fail(.tls(error))
        }
    }

    // MARK: The end

    private func ended(_ error: NetworkError?) {
        fail(destination.proxy != nil && !isThrough ? .proxy(.closed) : error ?? .ended)
    }

    private func succeed() {
        guard let stream else { return }
        self.stream = nil
        stream.onEvent = nil
        take()?(.success(stream))
    }

    private func fail(_ error: NetworkError) {
        if stream == nil, destination.proxy != nil {
            // Only the proxy was tried.
            take()?(.failure(.proxy(.unreachable(error))))
        } else {
            take()?(.failure(error))
        }
    }

    private func take() -> Completion? {
        let completion = completion
        self.completion = nil
        release()?.close()
        return completion
    }

    private func release() -> ByteStream? {
        for timer in [timer, lookupTimer, staggerTimer] { timer?.cancel() }
        for attempt in attempts { attempt.close() }
        attempts = []
        defer { stream = nil }
        return stream
    }
}
