import EventLoopThreads
import Glibc

/// Sockets that neither block nor reach a child process.
enum Socket {
    /// Opens a socket that `prepare` makes ready, and closes it if that fails.
    static func open(
        _ family: CInt, _ type: __socket_type, _ prepare: (CInt) throws(NetworkError) -> Void
    ) throws(NetworkError) -> CInt {
        let flags = CInt(type.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(family, flags, 0)
        guard descriptor >= 0 else { throw .system(errno) }
        do throws(NetworkError) {
            try prepare(descriptor)
            return descriptor
        } catch {
            close(descriptor)
            throw error
        }
    }

    static func connect(_ descriptor: CInt, to address: SocketAddress) throws(NetworkError) {
        let (status, code) = address.withSocketAddress { (Glibc.connect(descriptor, $0, $1), errno) }
        guard status == 0 || code == EINPROGRESS || code == EINTR else { throw .system(code) }
    }

    static func bind(_ descriptor: CInt, to address: SocketAddress) throws(NetworkError) {
        let (status, code) = address.withSocketAddress { (Glibc.bind(descriptor, $0, $1), errno) }
        guard status == 0 else { throw .system(code) }
    }

    static func set(_ descriptor: CInt, _ option: CInt) {
        var one: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, option, &one, socklen_t(MemoryLayout<CInt>.size))
    }
}

/// The local addresses that connections may use.
package struct SourceAddresses: Sendable {
    /// Returns address literals, as of now.
    package var addresses: @Sendable () -> [String]
    /// Why `addresses` returns none, as a sentence.
    package var absence: String

    package init(absence: String, addresses: @escaping @Sendable () -> [String]) {
        (self.absence, self.addresses) = (absence, addresses)
    }

    /// Binds a socket that is not connected yet.
    func bind(_ descriptor: CInt, family: CInt) throws(NetworkError) {
        let isBound = addresses().contains { text in
            guard let address = SocketAddress(ip: text, port: 0), address.family == family else { return false }
            return (try? Socket.bind(descriptor, to: address)) != nil
        }
        guard isBound else { throw .noSource(absence) }
    }
}
