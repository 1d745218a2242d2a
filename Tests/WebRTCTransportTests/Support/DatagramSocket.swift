import Glibc
import TestSupport

/// A UDP socket on 127.0.0.1 with a port chosen by the kernel.
final class DatagramSocket: Sendable {
    private let socket: LoopbackSocket
    var descriptor: Int32 { socket.descriptor }
    var port: UInt16 { socket.port }

    init() throws { socket = try LoopbackSocket() }

    func send(_ bytes: UnsafeRawBufferPointer, to port: UInt16) {
        var address = LoopbackSocket.address(port: port)
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                _ = sendto(
                    descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL), raw,
                    socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    func send(_ bytes: [UInt8], to port: UInt16) { bytes.withUnsafeBytes { send($0, to: port) } }

    /// Returns the size and source port of a received datagram, nil if none is waiting.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> (count: Int, port: UInt16)? {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                recvfrom(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT), raw, &length)
            }
        }
        guard count >= 0 else { return nil }
        return (count, UInt16(bigEndian: address.sin_port))
    }
}
