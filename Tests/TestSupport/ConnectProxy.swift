import Glibc
import Synchronization

/// An HTTP proxy on 127.0.0.1 that answers CONNECT; deinit closes it. Whatever host a client names, the tunnel leads to
/// the named port of 127.0.0.1, so names need no name server.
package final class ConnectProxy: Sendable {
    private let listener: LoopbackSocket
    private let answer: @Sendable (_ request: String) -> String?
    private let log = Mutex<[String]>([])
    private let isOver = Atomic<Bool>(false)

    package static let established = "HTTP/1.1 200 Connection established\r\n\r\n"

    /// - Parameter answer: the response to a request; nil: none, and the connection stays open.
    package init(answer: @escaping @Sendable (_ request: String) -> String? = { _ in established }) throws {
        listener = try LoopbackSocket(stream: true)
        self.answer = answer
        let (descriptor, log, answer) = (listener.descriptor, Weak(self), self.answer)
        detachThread {
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else { return }
                detachThread { Self.serve(client, answer) { log.value?.note($0) } }
            }
        }
    }

    deinit { shutdown(listener.descriptor, Int32(SHUT_RDWR)) }

    package var port: UInt16 { listener.port }

    /// The requests so far, with their header fields.
    package var requests: [String] { log.withLock { $0 } }

    private func note(_ request: String) { log.withLock { $0.append(request) } }

    // @unchecked: the reference is set by `init` only.
    private final class Weak: @unchecked Sendable {
        weak var value: ConnectProxy?
        init(_ value: ConnectProxy) { self.value = value }
    }

    private static func serve(
        _ client: Int32, _ answer: (String) -> String?, note: (String) -> Void
    ) {
        defer { close(client) }
        var request: [UInt8] = []
        var byte: UInt8 = 0
        while !request.ends(with: "\r\n\r\n") {
            guard request.count < 8192, read(client, &byte, 1) == 1 else { return }
            request.append(byte)
        }
        let text = String(decoding: request, as: UTF8.self)
        note(text)
        guard let reply = answer(text) else {
            _ = read(client, &byte, 1)
            return
        }
        guard reply.hasPrefix("HTTP/1.1 200"), let target = connect(to: text) else {
            send(Array(reply.utf8)[...], to: client)
            return
        }
        defer { close(target) }
        send(Array(reply.utf8)[...], to: client)
        pipe(client, target)
    }

    private static func connect(to request: String) -> Int32? {
        guard let words = request.split(separator: "\r\n").first?.split(separator: " "), words.count == 3,
            words[0] == "CONNECT", let port = words[1].split(separator: ":").last.flatMap({ UInt16($0) })
        else { return nil }
        let (descriptor, error) = LoopbackSocket.connect(to: port)
        guard error == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    private static func pipe(_ one: Int32, _ other: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            var items = [
                pollfd(fd: one, events: Int16(POLLIN), revents: 0),
                pollfd(fd: other, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&items, 2, -1) > 0 else { return }
            for (from, to) in [(items[0], other), (items[1], one)] where from.revents != 0 {
                let count = read(from.fd, &buffer, buffer.count)
                guard count > 0, send(buffer[..<count], to: to) else { return }
            }
        }
    }

    @discardableResult
    private static func send(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

extension [UInt8] {
    fileprivate func ends(with text: String) -> Bool { suffix(text.utf8.count).elementsEqual(text.utf8) }
}
