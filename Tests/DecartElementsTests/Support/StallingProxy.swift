import Dispatch
import Glibc
import Synchronization
import TestSupport

/// A proxy between an element and a stand-in. It forwards only the first WebSocket frames of the service, so that the
/// conversation stalls at a point of the test's choice.
final class StallingProxy: Sendable {
    private let listener: LoopbackSocket
    private let target: Int
    private let passedFrames: Int?
    private let open = Watched<[Int32]>([])
    private let passed = Watched(0)
    private let threads = DispatchGroup()
    /// Unsent remainder of the last injected frame, by client descriptor; the next write to that client sends it first.
    private let unfinished = Mutex<[Int32: [UInt8]]>([:])

    var port: Int { Int(listener.port) }
    var url: String { "ws://127.0.0.1:\(port)" }

    /// - Parameter frames: number of WebSocket frames forwarded from the server after the upgrade response; nil
    /// forwards everything.
    static func with(to standIn: StandIn, frames: Int?, _ body: (StallingProxy) throws -> Void) throws {
        let proxy = try StallingProxy(target: standIn.port, frames: frames)
        defer { proxy.close() }
        try body(proxy)
    }

    private init(target: Int, frames: Int?) throws {
        self.target = target
        passedFrames = frames
        listener = try LoopbackSocket(stream: true, backlog: 64)
        run { self.acceptAll() }
    }

    /// Waits until `count` frames have been forwarded, on all connections together.
    func waitForFrames(_ count: Int) -> Bool { passed.wait { $0 >= count } }

    /// Sends one frame repeatedly to one client, until the client's socket accepts no bytes for a second.
    /// - Parameter connection: index in the order of connection.
    /// - Returns: how many frames were sent whole.
    func inject(_ frame: [UInt8], times: Int, connection: Int = 0) -> Int {
        let clients = open.value.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        guard clients.indices.contains(connection) else { return 0 }
        let client = clients[connection]
        return unfinished.withLock { unfinished in
            Self.write((unfinished.removeValue(forKey: client) ?? [])[...], to: client)
            for count in 0..<times {
                let rest = Self.writeWhileTaken(frame[...], to: client)
                guard rest.isEmpty else {
                    unfinished[client] = Array(rest)
                    return count
                }
            }
            return times
        }
    }

    private static func writeWhileTaken(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> ArraySlice<UInt8> {
        var rest = bytes
        while !rest.isEmpty {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard poll(&waiting, 1, 1000) == 1 else { return rest }
            let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, flags) }
            guard count > 0 else { return rest }
            rest = rest.dropFirst(count)
        }
        return rest
    }

    /// Encodes an unmasked server frame with the shortest form of the length.
    static func frame(_ payload: [UInt8], isText: Bool = true) -> [UInt8] {
        let count = payload.count
        let long: [UInt8] = [126, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
        let length = count < 126 ? [UInt8(count)] : long
        return [isText ? 0x81 : 0x82] + length + payload
    }

    /// Closes every connection; new ones are accepted.
    func drop() { for descriptor in open.value { shutdown(descriptor, Int32(SHUT_RDWR)) } }

    func close() {
        shutdown(listener.descriptor, Int32(SHUT_RDWR))
        for descriptor in open.value { shutdown(descriptor, Int32(SHUT_RDWR)) }
        _ = threads.wait(timeout: .now() + .seconds(5))
        for descriptor in open.value { _ = Glibc.close(descriptor) }
    }

    private func run(_ body: @escaping @Sendable () -> Void) {
        DispatchQueue(label: "stalling-proxy").async(group: threads, execute: body)
    }

    private func acceptAll() {
        while true {
            let client = accept(listener.descriptor, nil, nil)
            guard client >= 0 else { return }
            let (server, error) = LoopbackSocket.connect(to: UInt16(target))
            open.change { $0 += [client, server] }
            guard error == 0 else { return }
            run { self.forward(from: client, to: server) }
            let isOpen = passedFrames == nil
            run { isOpen ? self.forward(from: server, to: client) : self.forwardFrames(from: server, to: client) }
        }
    }

    private func forward(from source: Int32, to sink: Int32) {
        while let bytes = Self.read(source) { Self.write(bytes[...], to: sink) }
        shutdown(sink, Int32(SHUT_WR))
    }

    /// Forwards the upgrade response up to its empty line, then whole frames (RFC 6455 §5.2); a server's frames are not
    /// masked.
    private func forwardFrames(from source: Int32, to sink: Int32) {
        var buffer: [UInt8] = []
        var isUpgraded = false
        var count = 0
        while let bytes = Self.read(source) {
            buffer += bytes
            if !isUpgraded, let end = Self.headEnd(buffer) {
                isUpgraded = true
                Self.write(buffer[..<end], to: sink)
                buffer.removeFirst(end)
            }
            while isUpgraded, let length = Self.frameLength(buffer), buffer.count >= length {
                if count < passedFrames ?? 0 {
                    let frame = Self.replacing(":\(target)", by: ":\(port)", in: buffer[..<length])
                    unfinished.withLock { unfinished in
                        Self.write((unfinished.removeValue(forKey: sink) ?? []) + frame, to: sink)
                    }
                    count += 1
                    passed.change { $0 += 1 }
                }
                buffer.removeFirst(length)
            }
        }
        shutdown(sink, Int32(SHUT_WR))
    }

    /// Replaces the stand-in's port in a frame, so that a room's address leads to this proxy too. Both ports have five
    /// digits, which keeps the frame's length.
    private static func replacing(_ old: String, by new: String, in bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let (old, new) = (Array(old.utf8), Array(new.utf8))
        guard old.count == new.count, bytes.count >= old.count else { return bytes }
        var bytes = bytes
        for start in bytes.startIndex...(bytes.endIndex - old.count) {
            let range = start..<(start + old.count)
            if bytes[range].elementsEqual(old) { bytes.replaceSubrange(range, with: new) }
        }
        return bytes
    }

    private static func headEnd(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        return (4...bytes.count).first { Array(bytes[($0 - 4)..<$0]) == [13, 10, 13, 10] }
    }

    private static func frameLength(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 2 else { return nil }
        switch bytes[1] & 0x7f {
        case 126: return bytes.count >= 4 ? 4 + (Int(bytes[2]) << 8) + Int(bytes[3]) : nil
        case 127: return bytes.count >= 10 ? 10 + bytes[2..<10].reduce(0) { $0 << 8 | Int($1) } : nil
        case let short: return 2 + Int(short)
        }
    }

    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            var sent = 0
            while sent < bytes.count {
                let count = send(descriptor, base + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
                guard count > 0 else { return }
                sent += count
            }
        }
    }
}
