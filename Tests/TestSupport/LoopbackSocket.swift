package import Glibc

/// A bound socket on 127.0.0.1, which does not answer by itself.
package final class LoopbackSocket: Sendable {
    package let descriptor: Int32
    package let port: UInt16

    package struct CannotBind: Error {
        package init() {}
    }

    /// - Parameters:
    ///   - port: 0 takes any free one.
    ///   - backlog: of a stream socket; nil: it does not listen, and refuses connections.
    package init(stream: Bool = false, port wanted: UInt16 = 0, backlog: Int32? = 8) throws {
        descriptor = socket(
            AF_INET, Int32((stream ? SOCK_STREAM : SOCK_DGRAM).rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = Self.address(port: wanted)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(descriptor, raw, length) == 0 && getsockname(descriptor, raw, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard status, !stream || backlog.map({ listen(descriptor, $0) == 0 }) ?? true else { throw CannotBind() }
    }

    package static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        return address
    }

    /// Connects a TCP socket, which the caller closes.
    /// - Returns: errno, 0 if it is connected; a socket that does not block may still be on its way.
    package static func connect(to port: UInt16, isBlocking: Bool = true) -> (descriptor: Int32, error: Int32) {
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | (isBlocking ? 0 : SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_INET, Int32(kind), 0)
        var address = address(port: port)
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return (descriptor, status == 0 ? 0 : errno)
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
