package import DecartProtocol
import EventLoopThreads
package import Network

/// The way by which TCP connections leave this host.
package struct NetworkRoute: Sendable {
    package typealias Source = SourceAddresses

    package var proxy: ProxyURL?
    package var source: Source?

    package init(proxy: ProxyURL? = nil, source: Source? = nil) {
        (self.proxy, self.source) = (proxy, source)
    }

    /// nil: connections to this host use none.
    package func proxy(to host: String) -> ProxyURL? {
        proxy.flatMap { $0.applies(to: host) ? $0 : nil }
    }

    /// Connections to this machine leave no interface.
    func source(to host: String) -> Source? { HTTPURL.isLoopback(host: host) ? nil : source }

    /// - Parameters:
    ///   - limit: see `Destination`.
    ///   - refusesLocal: no connection to this machine or to an address of its link, whatever name leads there. The proxy
    ///     may be there.
    func destination(
        _ host: String, _ port: Int, limit: Duration, resolveLimit: Duration? = nil, refusesLocal: Bool = false
    ) -> Destination {
        var destination = Destination(host: host, port: port, limit: limit, resolveLimit: resolveLimit)
        // A proxy would ask its own machine and link instead.
        if let proxy = proxy(to: host), !(refusesLocal && HTTPURL.isLocal(host: host)) {
            destination.proxy = .init(host: proxy.host, port: proxy.port, authorization: proxy.authorization?.reveal())
        }
        destination.source = source(to: destination.proxy?.host ?? host)
        if refusesLocal { destination.permits = { !HTTPURL.isLocal(host: $0.ip) } }
        return destination
    }
}
