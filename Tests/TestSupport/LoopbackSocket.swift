import Glibc

/// A bound socket on 127.0.0.1, which does not answer by itself.
package final class LoopbackSocket: Sendable {
    package let descriptor: Int32
    package let port: UInt16

    package struct CannotBind: Error {
        package init() {}
    }

    /// - Parameter port: 0 takes any free one.
    package init(stream: Bool = false, port wanted: UInt16 = 0) throws {
        descriptor = socket(
            AF_INET, Int32((stream ? SOCK_STREAM : SOCK_DGRAM).rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = wanted.bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(descriptor, raw, length) == 0 && getsockname(descriptor, raw, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard status, !stream || listen(descriptor, 8) == 0 else { throw CannotBind() }
    }

    deinit { close(descriptor) }

    /// True if received data waits to be read.
    package func hasReceived() -> Bool {
        var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&item, 1, 0) > 0
    }

    /// Returns a port that is free for UDP and TCP. It lies below the range from which the kernel gives every
    /// connection its local port (32768 and up): one of these would take it before the caller binds it.
    package static func freePort() throws -> UInt16 {
        for _ in 0..<100 {
            let port = UInt16.random(in: 10_000..<32_000)
            if (try? LoopbackSocket(port: port)) != nil, (try? LoopbackSocket(stream: true, port: port)) != nil {
                return port
            }
        }
        throw CannotBind()
    }
}
