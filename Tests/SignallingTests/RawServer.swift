// A loopback server that sends exactly the bytes of a script. It implements HTTP and WebSocket by hand on blocking sockets,
// so that no tested code but TLS is part of the test.
import EventLoopThreads
import Glibc
import MediaSecurity
import Synchronization
import TestSupport
import Testing

/// Behaviour of the server on one connection.
struct Script: Sendable {
    /// Returns the raw response to the request head; nil for none.
    var respond: @Sendable (_ request: String) -> [UInt8]? = { RawServer.upgrade($0) }
    /// Raw bytes directly after the response.
    var greet: [UInt8] = []
    /// Returns the raw response to a client frame; nil for none.
    var onFrame: @Sendable (ClientFrame) -> [UInt8]? = { RawServer.standardReply($0) }
    /// True: reads nothing after the request.
    var isDeaf = false
    /// True: closes after the response.
    var closes = false
    /// Repeated after the response until the client disconnects.
    var endless: [UInt8]?

    /// A server of HTTP: nothing that follows a request's head is a frame.
    static func http(
        closes: Bool = false, _ respond: @escaping @Sendable (_ request: String) -> [UInt8]?
    ) -> Script {
        Script(respond: respond, onFrame: { _ in nil }, closes: closes)
    }
}

struct ClientFrame: Sendable, Equatable {
    var opcode: UInt8
    var isFinal: Bool
    var isMasked: Bool
    var mask: [UInt8]
    var payload: [UInt8]
}

final class RawServer: Sendable {
    let port: Int
    private let listener: CInt
    private let isAdmitting: Watched<Bool>
    private let log = Observed(Log())

    struct CannotListen: Error {}

    struct Log: Sendable {
        var connections = 0
        var requests: [String] = []
        /// Addresses of the clients.
        var peers: [String] = []
        var frames: [ClientFrame] = []
        /// Connections that have ended.
        var ended = 0
        /// Application bytes, decrypted.
        var bytes = 0
        fileprivate var open: [RawConnection] = []
        fileprivate var isStopping = false
    }

    /// - Parameter isFull: the system takes one connection and delays others until `admit`.
    init(
        _ script: Script = Script(), tls: TLSServerContext? = nil, host: String = "127.0.0.1", isFull: Bool = false
    ) throws {
        guard let address = SocketAddress(ip: host, port: 0) else { throw CannotListen() }
        let listener = socket(address.family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard address.withSocketAddress({ bind(listener, $0, $1) }) == 0, listen(listener, isFull ? 0 : 256) == 0,
            let bound = SocketAddress(reading: { getsockname(listener, $0, $1) })
        else {
            Glibc.close(listener)
            throw CannotListen()
        }
        port = bound.port
        self.listener = listener
        isAdmitting = Watched(!isFull)
        let (log, isAdmitting) = (log, isAdmitting)
        detachThread {
            defer { Glibc.close(listener) }
            guard isAdmitting.wait(until: { $0 }) else { return }
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                RawConnection(descriptor, script, tls, log).serve()
            }
        }
    }

    var connections: Int { log.value.connections }
    var requests: [String] { log.value.requests }
    var peers: [String] { log.value.peers }
    var frames: [ClientFrame] { log.value.frames }
    var bytesReceived: Int { log.value.bytes }

    /// Waits until the received frames satisfy a condition; false after 20 s.
    func waitForFrames(_ condition: @escaping @Sendable ([ClientFrame]) -> Bool) async -> Bool {
        await log.wait { condition($0.frames) }
    }

    /// Waits for this number of connections; false after 20 s.
    func waitForConnections(_ count: Int = 1) async -> Bool {
        await log.wait { $0.connections >= count }
    }

    /// Waits for this number of requests; false after 20 s.
    func waitForRequest(_ count: Int = 1) async -> Bool {
        await log.wait { $0.requests.count >= count }
    }

    /// Waits until this number of connections have ended; false after 20 s.
    func waitForEnd(_ count: Int = 1) async -> Bool {
        await log.wait { $0.ended >= count }
    }

    func admit() { isAdmitting.change { $0 = true } }

    /// Closes every connection without a close frame.
    func cut() {
        for connection in log.value.open { connection.cut() }
    }

    func stop() async {
        log.change { $0.isStopping = true }
        // Wakes the thread that accepts.
        shutdown(listener, CInt(SHUT_RDWR))
        admit()
        cut()
        #expect(await log.wait { $0.ended == $0.connections })
    }

    // MARK: HTTP and frames

    static func upgrade(_ request: String, extra: [String] = [], accept: String? = nil) -> [UInt8] {
        let key = header("Sec-WebSocket-Key", in: request) ?? ""
        let hash = accept ?? SHA1.webSocketAccept(key)
        let lines =
            [
                "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                "Sec-WebSocket-Accept: \(hash)",
            ] + extra
        return [UInt8]((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    static func header(_ name: String, in request: String) -> String? {
        for line in request.split(separator: "\r\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                return String(parts[1].drop { $0 == " " })
            }
        }
        return nil
    }

    static func standardReply(_ frame: ClientFrame) -> [UInt8]? {
        switch frame.opcode {
        case 1, 2: RawServer.frame(UInt8(frame.opcode), frame.payload)
        case 8: RawServer.frame(8, frame.payload)
        case 9: RawServer.frame(10, frame.payload)
        default: nil
        }
    }

    static func frame(_ opcode: UInt8, _ payload: [UInt8] = [], fin: Bool = true, rsv: UInt8 = 0) -> [UInt8] {
        var bytes: [UInt8] = [(fin ? 0x80 : 0) | rsv << 4 | opcode]
        switch payload.count {
        case ...125: bytes.append(UInt8(payload.count))
        case ...65535: bytes += [126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        default: bytes += [127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        return bytes + payload
    }

    static func close(_ code: Int, _ reason: String = "") -> [UInt8] {
        frame(8, [UInt8(code >> 8 & 255), UInt8(code & 255)] + reason.utf8)
    }
}

/// One connection, with a thread that reads and one that writes.
// @unchecked: what only the reading thread uses.
private final class RawConnection: @unchecked Sendable {
    private struct Outgoing: Sendable {
        var bytes: [UInt8] = []
        var endless: [UInt8]?
        /// Closes when `bytes` are sent.
        var isClosing = false
        /// The reading thread has ended.
        var isOver = false
        /// The writing thread has ended.
        var isClosed = false

        /// What is to be sent next; nil: the end.
        mutating func take() -> [UInt8]? {
            defer { bytes = [] }
            if !bytes.isEmpty, !isOver { return bytes }
            return isClosing || isOver ? nil : endless
        }
    }

    private let descriptor: CInt
    private let script: Script
    private let tls: Mutex<TLSSession?>
    private let log: Observed<RawServer.Log>
    private let outgoing = Watched(Outgoing())
    // The reading thread's.
    private var buffer: [UInt8] = []
    private var isUpgraded = false

    init(_ descriptor: CInt, _ script: Script, _ tls: TLSServerContext?, _ log: Observed<RawServer.Log>) {
        (self.descriptor, self.script, self.log) = (descriptor, script, log)
        self.tls = Mutex(tls.flatMap { try? TLSSession(server: $0) })
    }

    func serve() {
        var one: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<CInt>.size))
        let peer = SocketAddress { [descriptor] in getpeername(descriptor, $0, $1) }
        let isTooLate = log.change {
            $0.connections += 1
            $0.open.append(self)
            $0.peers.append(peer?.ip ?? "")
            return $0.isStopping
        }
        if isTooLate { cut() }
        tls.withLock { $0?.start() }
        detachThread { self.write() }
        detachThread { self.read() }
    }

    /// Any thread; until `log` counts the end.
    func cut() { shutdown(descriptor, CInt(SHUT_RDWR)) }

    // MARK: Writing

    private func write() {
        while outgoing.wait(
            seconds: 600, until: { !$0.bytes.isEmpty || $0.endless != nil || $0.isClosing || $0.isOver })
        {
            var next: [UInt8]?
            outgoing.change { next = $0.take() }
            guard let next, sendAll(next) else { break }
        }
        cut()
        outgoing.change { $0.isClosed = true }
    }

    private func sendAll(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private func send(_ bytes: [UInt8]) {
        let encrypted = tls.withLock { tls -> [UInt8] in
            guard let tls else { return bytes }
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { tls.write($0) }
                guard count > 0 else { break }
                rest = rest.dropFirst(count)
            }
            return tls.takeOutput()
        }
        outgoing.change { $0.bytes += encrypted }
    }

    private func finish() {
        let alert = tls.withLock { tls -> [UInt8] in
            tls?.close()
            return tls?.takeOutput() ?? []
        }
        outgoing.change {
            $0.bytes += alert
            $0.isClosing = true
        }
    }

    // MARK: Reading

    private func read() {
        var received = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(descriptor, &received, received.count, 0)
            guard count > 0 else { break }
            take(decrypt(Array(received[..<count])))
            if isUpgraded, script.isDeaf {
                // Until both directions have ended.
                var item = pollfd(fd: descriptor, events: 0, revents: 0)
                while poll(&item, 1, -1) < 0 {}
                break
            }
        }
        outgoing.change { $0.isOver = true }
        cut()
        _ = outgoing.wait { $0.isClosed }
        log.change { log in
            log.open.removeAll { $0 === self }
            log.ended += 1
        }
        Glibc.close(descriptor)
    }

    private func decrypt(_ bytes: [UInt8]) -> [UInt8] {
        let (plain, answer, hasFailed) = tls.withLock { tls -> ([UInt8], [UInt8], Bool) in
            guard let tls else { return (bytes, [], false) }
            bytes.withUnsafeBytes { tls.receive($0) }
            var plain: [UInt8] = []
            while let part = tls.read() { plain += part }
            if case .failed = tls.state { return (plain, tls.takeOutput(), true) }
            return (plain, tls.takeOutput(), false)
        }
        outgoing.change {
            $0.bytes += answer
            if hasFailed { $0.isClosing = true }
        }
        return plain
    }

    private func take(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        log.change { $0.bytes += bytes.count }
        buffer += bytes
        if !isUpgraded { head() }
        while isUpgraded, let frame = nextFrame() {
            log.change { $0.frames.append(frame) }
            if let answer = script.onFrame(frame) { send(answer) }
            if frame.opcode == 8 { finish() }
        }
    }

    private func head() {
        let end = [UInt8]("\r\n\r\n".utf8)
        guard let index = buffer.indices.first(where: { buffer[$0...].starts(with: end) }) else { return }
        let request = String(decoding: buffer[..<index], as: UTF8.self)
        buffer.removeFirst(index + 4)
        isUpgraded = true
        log.change { $0.requests.append(request) }
        guard let answer = script.respond(request) else { return }
        send(answer + script.greet)
        if let endless = script.endless { outgoing.change { $0.endless = endless } }
        if script.closes { finish() }
    }

    private func nextFrame() -> ClientFrame? {
        guard buffer.count >= 2 else { return nil }
        let isMasked = buffer[1] & 0x80 != 0
        var length = Int(buffer[1] & 0x7F)
        var offset = 2
        let extra = length == 126 ? 2 : length == 127 ? 8 : 0
        guard buffer.count >= 2 + extra else { return nil }
        if extra > 0 { length = buffer[2..<(2 + extra)].reduce(0) { $0 << 8 | Int($1) } }
        offset += extra
        let mask = isMasked ? Array(buffer[offset...].prefix(4)) : []
        offset += isMasked ? 4 : 0
        guard buffer.count >= offset + length else { return nil }
        var payload = Array(buffer[offset..<(offset + length)])
        if isMasked { for index in payload.indices { payload[index] ^= mask[index % 4] } }
        let frame = ClientFrame(
            opcode: buffer[0] & 15, isFinal: buffer[0] & 0x80 != 0, isMasked: isMasked, mask: mask, payload: payload)
        buffer.removeFirst(offset + length)
        return frame
    }
}

/// FIPS 180-4 6.1, for the hash in the handshake only.
enum SHA1 {
    static func webSocketAccept(_ key: String) -> String {
        let digest = hash([UInt8]((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
        let digits = [Character]("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        var bits = digest.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
        while bits.count % 6 != 0 { bits.append(0) }
        let text = stride(from: 0, to: bits.count, by: 6).map { start in
            digits[bits[start..<(start + 6)].reduce(0) { $0 << 1 | Int($1) }]
        }
        return String(text) + "="
    }

    static func hash(_ message: [UInt8]) -> [UInt8] {
        var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
        var data = message + [0x80]
        while data.count % 64 != 56 { data.append(0) }
        data += (0..<8).map { UInt8(truncatingIfNeeded: (message.count * 8) >> (56 - 8 * $0)) }
        for start in stride(from: 0, to: data.count, by: 64) {
            var words = (0..<16).map { word in
                data[(start + word * 4)..<(start + word * 4 + 4)].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            }
            func rotate(_ value: UInt32, _ count: UInt32) -> UInt32 { value << count | value >> (32 - count) }
            for index in 16..<80 {
                words.append(rotate(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], 1))
            }
            var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
            for index in 0..<80 {
                let (f, k): (UInt32, UInt32) =
                    switch index {
                    case ..<20: (b & c | ~b & d, 0x5A82_7999)
                    case ..<40: (b ^ c ^ d, 0x6ED9_EBA1)
                    case ..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
                    default: (b ^ c ^ d, 0xCA62_C1D6)
                    }
                let next = rotate(a, 5) &+ f &+ e &+ k &+ words[index]
                (e, d, c, b, a) = (d, c, rotate(b, 30), a, next)
            }
            state = zip(state, [a, b, c, d, e]).map { $0 &+ $1 }
        }
        return state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) } }
    }
}
