// The service's name, port and certificate.
import DecartProtocol
import DecartSession
import Dispatch
import Glibc
import Signalling

enum ServiceProbes {
    typealias Completion = @Sendable (ProbeResult) -> Void

    static func lookUp(_ configuration: CheckConfiguration, completion: @escaping Completion) {
        let host = configuration.base.host
        guard !configuration.base.hostIsAddress else {
            return completion(.notTried(.dns, host, "Not tried: base-url has an address, no name."))
        }
        if configuration.route.proxy(to: host) != nil {
            return completion(.notTried(.dns, host, "Not tried: the HTTP proxy resolves the name."))
        }
        let watch = Stopwatch()
        // getaddrinfo cannot be cancelled: the later of the two results is ignored.
        NameLookup.addresses(of: host) { result in
            switch result {
            case .success(let addresses):
                let count = addresses.count == 1 ? "one address" : "\(addresses.count) addresses"
                completion(ProbeResult(.dns, host, .ok, watch.elapsed, "The name has \(count)."))
            case .failure(let error):
                completion(ProbeResult(.dns, host, .failed(.dns), watch.elapsed, error.message))
            }
        }
        DispatchQueue.probeTimers.asyncAfter(deadline: .now() + .milliseconds(configuration.limit.milliseconds)) {
            completion(
                ProbeResult(.dns, host, .failed(.dns), watch.elapsed, NameLookup.timeout(of: host).message))
        }
    }

    static func connect(_ configuration: CheckConfiguration, completion: @escaping Completion) {
        let tunnel = configuration.route.proxy(to: configuration.base.host)
            .map { "The HTTP proxy \($0.place) opened a tunnel." }
        run(.tcp, .tcp, configuration, completion) { tunnel ?? "\($0.address) accepted the connection." }
    }

    static func handshake(_ configuration: CheckConfiguration, completion: @escaping Completion) {
        let base = configuration.base
        guard base.isSecure else {
            return completion(.notTried(.tls, target(base), "Not tried: base-url is unencrypted."))
        }
        run(.tls, .tls(configuration.trust, protocols: ["http/1.1"]), configuration, completion) { facts in
            let days = facts.certificateExpiry.map { ($0 - time(nil)) / 86_400 }
            let expiry = days.map { ", whose certificate is valid for \($0) more days" } ?? ""
            return "\(facts.tlsVersion ?? "TLS") to a verified server\(expiry)."
        }
    }

    /// - Parameter text: the finding if the connection succeeds.
    private static func run(
        _ kind: ProbeKind, _ transport: ProbeConnection.Transport, _ configuration: CheckConfiguration,
        _ completion: @escaping Completion, text: @escaping @Sendable (ProbeConnection.Connected) -> String
    ) {
        let base = configuration.base
        let (watch, target) = (Stopwatch(), target(base))
        let holder = Holder<ProbeConnection>()
        let connection = ProbeConnection(
            host: base.host, port: base.port, transport: transport, route: configuration.route,
            limit: configuration.limit
        ) { event in
            switch event {
            case .connected(let facts): completion(ProbeResult(kind, target, .ok, watch.elapsed, text(facts)))
            case .failed(let error):
                completion(ProbeResult(kind, target, .failed(cause(of: error)), watch.elapsed, error.message))
            case .received: return
            }
            holder.take()?.close()
        }
        holder.store(connection)
        connection.open()
    }

    private static func target(_ base: ServiceURL) -> String { "\(base.host.bracketed):\(base.port)" }

    /// The part of the stack below the service that an error belongs to.
    static func cause(of error: SessionError) -> Cause {
        switch error.stage {
        case .resolve: .dns
        case .connect: .tcp
        case .tls, .configuration: .tls
        default: error.message.contains("TLS") ? .tls : .tcp
        }
    }
}
