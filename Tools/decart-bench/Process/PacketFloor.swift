import Glibc
import MediaSecurity

/// The least that a packet can cost with the product's means: protect and send, poll, receive and unprotect, over a
/// loopback UDP socket, on one thread and one packet a system call.
enum PacketFloor {
    /// Packets a second in each direction of the session that `load` measures.
    private static let rate = 260.0
    private static let count = 100_000

    /// Returns the seconds of CPU that a session of `rate` packets in each direction costs a minute.
    static func measure() throws -> Double {
        let secret = [UInt8](repeating: 7, count: 28)
        guard let keys = SRTPKeyMaterial(profile: .aeadAES128GCM, local: secret, remote: secret) else {
            throw BenchError("the SRTP keys have a wrong length")
        }
        let srtp = try SRTPTransform(keys: keys)
        let (sender, receiver) = (try Socket(), try Socket())
        var destination = try receiver.address()
        let packet = UnsafeMutableRawBufferPointer.allocate(byteCount: 2048, alignment: 16)
        defer { packet.deallocate() }
        let start = ProcessStatistics.cpuTime
        for number in 0..<count {
            // RTP: version 2, payload type 96, the sequence number, timestamp 0, SSRC 1.
            for (index, byte) in [0x80, 96, UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number)]
                .enumerated()
            { packet[index] = byte }
            for index in 4..<12 { packet[index] = index == 11 ? 1 : 0 }
            guard let length = srtp.protectRTP(packet, length: 1162),
                sender.send(packet, length, to: &destination),
                let received = receiver.receive(packet), received == length,
                srtp.unprotectRTP(packet, length: received) == 1162
            else { throw BenchError("packet \(number) of the floor was lost") }
        }
        return (ProcessStatistics.cpuTime - start).inSeconds / Double(count) * rate * 60
    }

    private final class Socket {
        private let descriptor: CInt

        init() throws {
            descriptor = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
            guard descriptor >= 0 else { throw BenchError("no socket") }
            var local = sockaddr_in()
            local.sin_family = sa_family_t(AF_INET)
            local.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let bound = withAddress(&local) { bind(descriptor, $0, $1) }
            guard bound == 0 else { throw BenchError("the socket has no address") }
        }

        deinit { close(descriptor) }

        func address() throws -> sockaddr_in {
            var (local, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
            let isKnown = withUnsafeMutablePointer(to: &local) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
            }
            guard isKnown else { throw BenchError("the socket's address is unknown") }
            return local
        }

        func send(_ packet: UnsafeMutableRawBufferPointer, _ length: Int, to address: inout sockaddr_in) -> Bool {
            withAddress(&address) { sendto(descriptor, packet.baseAddress, length, 0, $0, $1) } == length
        }

        func receive(_ packet: UnsafeMutableRawBufferPointer) -> Int? {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, 1000) == 1 else { return nil }
            let length = recv(descriptor, packet.baseAddress, packet.count, 0)
            return length > 0 ? length : nil
        }
    }
}

private func withAddress<T>(_ address: inout sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> T) -> T {
    withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
}
