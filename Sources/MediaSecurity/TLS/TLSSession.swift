// One TLS connection over memory BIOs. It knows no socket and no thread; OpenSSL reads the system clock for the dates of
// certificates.
private import COpenSSL
private import Glibc

/// What a handshake negotiated.
package struct TLSFacts: Sendable, Equatable {
    package var version: TLSVersion
    /// When the peer's certificate expires, in seconds since 1970; nil on a server.
    package var certificateExpiry: Int?
}

/// Used by one thread. After each call its owner sends what `takeOutput()` returns, also if the state is `failed`: it may
/// be an alert that tells the peer the reason.
package final class TLSSession {
    /// Limit for what a handshake may receive. The longest chains take less than 20 KiB.
    static let maximumHandshakeBytes = 256 * 1_024
    /// Limit for OpenSSL's own answers after the handshake, which a peer causes by KeyUpdate and HelloRequest: one answer
    /// has about 30 bytes, and a connection needs a handful in its life.
    static let maximumAnswerBytes = 64 * 1_024
    /// The plaintext of one record (RFC 8446 §5.1).
    package static let maximumRecord = 16_384

    package enum State: Sendable, Equatable {
        case handshaking
        case open
        /// The peer has sent close_notify. Nothing can be read or written any more.
        case closed
        case failed(TLSError)
    }

    package private(set) var state = State.handshaking
    /// Nil before the end of the handshake.
    package private(set) var facts: TLSFacts?

    private let connection: MemoryConnection
    private var handshakeBytes = 0
    private var answerBytes = 0
    private var hasEnded = false
    private var isClosing = false

    /// A client's end.
    /// - Parameter serverName: the DNS name, in A-labels, or the IPv4 or IPv6 address for which the server's certificate
    ///   must be. Only a subjectAltName counts (RFC 9525 §6.3).
    package init(client: TLSClientContext, serverName: String) throws(TLSError) {
        guard let connection = MemoryConnection(context: client.context) else { throw .drained(.setup) }
        self.connection = connection
        SSL_set_connect_state(connection.ssl)
        guard Self.verify(serverName, on: connection.ssl) else { throw .drained(.setup) }
    }

    /// A server's end.
    package init(server: TLSServerContext) throws(TLSError) {
        guard let connection = MemoryConnection(context: server.context) else { throw .drained(.setup) }
        self.connection = connection
        SSL_set_accept_state(connection.ssl)
    }

    /// Requires a certificate for `name`, which server_name announces if it is none of an address (RFC 6066 §3).
    private static func verify(_ name: String, on ssl: OpaquePointer) -> Bool {
        let parameters = SSL_get0_param(ssl)
        if let address = address(name) {
            return X509_VERIFY_PARAM_set1_ip(parameters, address, address.count) == 1
        }
        let host = name.hasSuffix(".") ? String(name.dropLast()) : name
        // OpenSSL takes a leading dot for "any subdomain".
        guard (1...253).contains(host.utf8.count), !host.hasPrefix("."),
            host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-_.".contains($0)) })
        else { return false }
        SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        return SSL_set1_host(ssl, host) == 1 && gst_decart_ssl_set_server_name(ssl, host) == 1
    }

    /// The bytes of an address literal; nil if `name` is none. A zone identifier is not part of the address.
    private static func address(_ name: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, name, &bytes) == 1 { return Array(bytes.prefix(4)) }
        let withoutZone = name.prefix { $0 != "%" }
        return inet_pton(AF_INET6, String(withoutZone), &bytes) == 1 ? bytes : nil
    }

    // MARK: - Input

    /// Starts a client's handshake.
    package func start() {
        if case .handshaking = state { handshake() }
    }

    /// Takes bytes from the peer. The owner then reads until `read()` returns nil, because alerts and requests to change
    /// keys are processed there.
    package func receive(_ bytes: UnsafeRawBufferPointer) {
        switch state {
        case .handshaking:
            // The first record is a handshake message or an alert. Shorter answers than a record's header count too.
            if handshakeBytes == 0, let type = bytes.first, type != 21, type != 22 { return fail(TLSError(.notTLS)) }
            handshakeBytes = min(handshakeBytes, Self.maximumHandshakeBytes) + bytes.count
            feed(bytes)
            handshake()
            if case .handshaking = state, handshakeBytes > Self.maximumHandshakeBytes { fail(TLSError(.limit)) }
        case .open: feed(bytes)
        case .closed, .failed: break
        }
    }

    /// The TCP connection has ended. Data that was received before can still be read.
    package func receivedEnd() {
        hasEnded = true
        switch state {
        case .handshaking: fail(TLSError(.endOfHandshake))
        case .open:
            var byte: UInt8 = 0
            _ = note(connection.call { SSL_peek($0, &byte, 1) })
        case .closed, .failed: break
        }
    }

    /// Returns the next plaintext, at most 16 KiB; nil if there is none now.
    package func read() -> [UInt8]? {
        guard case .open = state else { return nil }
        let before = connection.outputCount
        var outcome = MemoryConnection.Outcome.failed
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.maximumRecord) { buffer, count in
            outcome = connection.read(into: UnsafeMutableRawBufferPointer(buffer))
            if case .done(let read) = outcome { count = min(max(read, 0), buffer.count) }
        }
        answerBytes += max(connection.outputCount - before, 0)
        if answerBytes > Self.maximumAnswerBytes { fail(TLSError(.limit)) }
        return note(outcome) ? bytes : nil
    }

    // MARK: - Output

    /// Encrypts as much as one record takes. Returns the number of bytes taken; 0 if the connection is not open.
    package func write(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard case .open = state, !isClosing, !bytes.isEmpty else { return 0 }
        let count = Int32(clamping: min(bytes.count, Self.maximumRecord))
        switch connection.call({ SSL_write($0, bytes.baseAddress, count) }) {
        case .done(let written): return written
        case .wantsInput: return 0
        case .closed, .failed:
            fail(.drained(of: connection.ssl, fallback: .protocolError))
            return 0
        }
    }

    package var hasOutput: Bool { connection.outputCount > 0 }

    /// Takes the bytes for the socket.
    package func takeOutput() -> [UInt8] { connection.takeOutput() }

    /// Queues close_notify. Data of the peer can still be read.
    package func close() {
        guard !isClosing else { return }
        isClosing = true
        switch state {
        case .open, .closed: connection.shutDown()
        case .handshaking, .failed: break
        }
    }

    // MARK: - States

    private func feed(_ bytes: UnsafeRawBufferPointer) {
        if !connection.feed(bytes) { fail(TLSError(.limit)) }
    }

    private func handshake() {
        switch connection.handshake() {
        case .done:
            facts = negotiated()
            state = .open
        case .wantsInput: break
        case .closed: fail(TLSError(.endOfHandshake))
        case .failed: fail(.drained(of: connection.ssl, fallback: .handshake))
        }
    }

    /// Returns true if there is data.
    private func note(_ outcome: MemoryConnection.Outcome) -> Bool {
        switch outcome {
        case .done: return true
        case .wantsInput: if hasEnded { fail(TLSError(.truncated)) }
        case .closed: state = .closed
        case .failed: fail(.drained(of: connection.ssl, fallback: .protocolError))
        }
        return false
    }

    private func fail(_ error: TLSError) {
        // Keep the first error, which is the cause of later ones.
        if case .failed = state { return }
        state = .failed(error)
    }

    private func negotiated() -> TLSFacts {
        let version = TLSVersion.allCases.first { $0.number == SSL_version(connection.ssl) }
        let expiry: Int? = connection.withPeerCertificate(Self.expiry) ?? nil
        return TLSFacts(version: version ?? .tls13, certificateExpiry: expiry)
    }

    private static func expiry(_ certificate: OpaquePointer) -> Int? {
        var time = tm()
        guard ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1 else { return nil }
        return timegm(&time)
    }
}
