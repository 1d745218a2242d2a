package import DecartProtocol
import Glibc
import NIOCore
import NIOPosix

/// The way by which TCP connections leave this host.
package struct NetworkRoute: Sendable {
    /// The local addresses that connections may use.
    package struct Source: Sendable {
        /// Returns address literals, as of now.
        package var addresses: @Sendable () -> [String]
        /// Why `addresses` returns none, as a sentence.
        package var absence: String

        package init(absence: String, addresses: @escaping @Sendable () -> [String]) {
            (self.absence, self.addresses) = (absence, addresses)
        }
    }

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
}

extension NetworkRoute.Source {
    struct NoAddress: Error {
        let reason: String
    }

    /// Binds a socket that is not connected yet. Call it on the channel's event loop.
    func bind(_ channel: any Channel) throws {
        let isBound = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { descriptor in
            var family: CInt = 0
            var size = socklen_t(MemoryLayout<CInt>.size)
            guard getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 else { return false }
            return addresses().contains { text in
                guard let address = try? SocketAddress(ipAddress: text, port: 0),
                    address.protocol == (family == AF_INET6 ? .inet6 : .inet)
                else { return false }
                return address.withSockAddr { Glibc.bind(descriptor, $0, socklen_t($1)) } == 0
            }
        }
        guard isBound ?? false else { throw NoAddress(reason: absence) }
    }
}
