// A loopback server that sends exactly the bytes of a script. It implements HTTP and WebSocket by hand, so that no
// tested code is part of the test.
import EventLoopThreads
import NIOCore
import NIOPosix
import NIOSSL
import Signalling
import TestSupport

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
    private let group: MultiThreadedEventLoopGroup
    private let channel: any Channel
    private let log = Observed(Log())

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
        var open: [any Channel] = []
    }

    /// - Parameter isFull: the system takes one connection and delays others until `admit`.
    init(
        _ script: Script = Script(), tls: NIOSSLContext? = nil, host: String = "127.0.0.1", isFull: Bool = false
    ) async throws {
        group = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        let log = log
        channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.backlog, value: CInt(isFull ? 0 : 256))
            .serverChannelOption(.autoRead, value: !isFull)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    log.change {
                        $0.connections += 1
                        $0.open.append(channel)
                        $0.peers.append(channel.remoteAddress?.ipAddress ?? "")
                    }
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.addHandler(RawHandler(script, log))
                }
            }
            .bind(host: host, port: 0).get()
        port = channel.localAddress?.port ?? 0
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

    /// Waits for this number of requests; false after 20 s.
    func waitForRequest(_ count: Int = 1) async -> Bool {
        await log.wait { $0.requests.count >= count }
    }

    /// Waits until this number of connections have ended; false after 20 s.
    func waitForEnd(_ count: Int = 1) async -> Bool {
        await log.wait { $0.ended >= count }
    }

    func admit() async throws { try await channel.setOption(.autoRead, value: true).get() }

    /// Closes every connection without a close frame.
    func cut() {
        for channel in log.value.open { channel.close(promise: nil) }
    }

    func shutdown() async throws {
        try await channel.close()
        cut()
        try await group.shutdownGracefully()
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

private final class RawHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let script: Script
    private let log: Observed<RawServer.Log>
    private var buffer: [UInt8] = []
    private var isUpgraded = false

    init(_ script: Script, _ log: Observed<RawServer.Log>) {
        self.script = script
        self.log = log
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = [UInt8](unwrapInboundIn(data).readableBytesView)
        log.change { $0.bytes += bytes.count }
        buffer += bytes
        if !isUpgraded { head(context) }
        while isUpgraded, let frame = nextFrame() {
            log.change { $0.frames.append(frame) }
            if let answer = script.onFrame(frame) { write(context, answer) }
            if frame.opcode == 8 { context.close(promise: nil) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        log.change { $0.ended += 1 }
    }

    private func head(_ context: ChannelHandlerContext) {
        let end = [UInt8]("\r\n\r\n".utf8)
        guard let index = buffer.indices.first(where: { buffer[$0...].starts(with: end) }) else { return }
        let request = String(decoding: buffer[..<index], as: UTF8.self)
        buffer.removeFirst(index + 4)
        isUpgraded = true
        log.change { $0.requests.append(request) }
        if script.isDeaf {
            _ = try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        }
        guard let answer = script.respond(request) else { return }
        write(context, answer + script.greet)
        if let endless = script.endless { repeatForEver(context, endless) }
        if script.closes { context.close(promise: nil) }
    }

    private func repeatForEver(_ context: ChannelHandlerContext, _ bytes: [UInt8]) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenSuccess {
            bound.eventLoop.execute { bound.value.0.repeatForEver(bound.value.1, bytes) }
        }
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: promise)
    }

    private func write(_ context: ChannelHandlerContext, _ bytes: [UInt8]) {
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(bytes: bytes)), promise: nil)
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

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
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
