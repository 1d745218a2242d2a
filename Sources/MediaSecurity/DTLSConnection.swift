// One DTLS 1.2 association over memory BIOs (RFC 5764, RFC 8827). It knows no socket and no thread. The retransmission
// timer is OpenSSL's and reads the system clock; the owner polls `nextTimeout` and calls `handleTimeout()`.
private import COpenSSL

/// Used by one thread. After each call its owner must send the outgoing datagrams and re-arm a timer with
/// `nextTimeout`.
///
/// In either role, no key is exported before the peer's certificate has matched a fingerprint from signalling.
package final class DTLSConnection {
    /// Limits for what a handshake may receive. A handshake with an RSA chain takes less than 10 KiB; more is an
    /// attack.
    static let maximumHandshakeBytes = 256 * 1_024
    static let maximumHandshakeDatagrams = 2_000
    /// Limit for protected records during a handshake: OpenSSL buffers each one that precedes the peer's
    /// change_cipher_spec, in about 17 KiB.
    static let maximumEarlyRecords = 32
    /// Limit for queued outgoing datagrams. The owner is expected to drain the queue after each call.
    static let maximumOutgoingDatagrams = 64

    package let role: DTLSRole
    package private(set) var counters = DTLSCounters()
    /// Negotiated parameters; empty before the end of the handshake.
    package private(set) var parameters = DTLSParameters()

    private enum Phase {
        case idle
        case handshaking
        /// The handshake has finished, but the peer's fingerprints have not arrived from signalling yet.
        case unverified
        case established
        case closed
        case failed(DTLSError)
    }

    private let mtu: Int
    private let connection: MemoryConnection
    /// Referenced unretained by the connection's context.
    private let verifier: PeerVerifier
    /// Referenced unretained by the connection as its ex_data.
    private let times: RetransmissionTimes
    private var phase = Phase.idle
    private var handshakeBytes = 0
    private var handshakeDatagrams = 0
    private var earlyRecords = 0
    private var outgoing: [[UInt8]] = []
    private var scratch = [UInt8](repeating: 0, count: 2_048)

    /// - Parameters:
    ///   - mtu: the largest outgoing datagram, in bytes of UDP payload; at least 256.
    ///   - profiles: the SRTP profiles to offer or accept, in order of preference.
    package init(
        role: DTLSRole, certificate: DTLSCertificate, mtu: Int = 1_200,
        profiles: [SRTPProfile] = [.aeadAES128GCM, .aes128CMSHA1_80],
        retransmission: DTLSRetransmission = .standard
    ) throws(DTLSError) {
        ErrorQueue.clear()
        self.role = role
        self.mtu = min(max(mtu, 256), 16_384)
        verifier = PeerVerifier()
        let context = try DTLSContext.make(certificate: certificate, profiles: profiles, verifier: verifier)
        defer { SSL_CTX_free(context) }
        guard let connection = MemoryConnection(context: context) else { throw .drained(.setup, "no DTLS connection") }
        self.connection = connection
        let ssl = connection.ssl
        gst_decart_ssl_set_mtu(ssl, self.mtu)
        times = RetransmissionTimes(retransmission)
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(times).toOpaque())
        DTLS_set_timer_cb(ssl, retransmissionTimer)
        switch role {
        case .client: SSL_set_connect_state(ssl)
        case .server: SSL_set_accept_state(ssl)
        }
    }

    /// Sets the peer's certificate fingerprints from signalling; one of them must match. Only the first call takes
    /// effect. It may come after the peer's ClientHello, and completes or fails a handshake that has already finished.
    ///
    /// The connection fails if the list is empty, because the peer could not be verified.
    @discardableResult
    package func setRemoteFingerprints(_ fingerprints: [Fingerprint]) -> DTLSStatus {
        guard verifier.expected == nil else { return status }
        guard !fingerprints.isEmpty else {
            return fail(DTLSError(.fingerprintMismatch, "the remote peer signalled no usable certificate fingerprint"))
        }
        verifier.expected = fingerprints
        guard case .unverified = phase else { return status }
        return verifyAndExport()
    }

    /// Starts the handshake: a client sends its ClientHello, a server waits for one.
    @discardableResult
    package func start() -> DTLSStatus {
        guard case .idle = phase else { return status }
        phase = .handshaking
        return step()
    }

    /// Processes a datagram from the peer. Drops and counts anything that is not plausible DTLS.
    package func receive(_ datagram: UnsafeRawBufferPointer) -> DTLSStatus {
        counters.datagramsReceived &+= 1
        guard DTLSRecords.isPlausible(datagram) else {
            counters.datagramsDropped &+= 1
            return status
        }
        switch phase {
        case .idle:
            // A server accepts a ClientHello that arrives before `start()`. A client has sent nothing yet, so nothing
            // can be an answer.
            guard role == .server else {
                counters.datagramsDropped &+= 1
                return status
            }
            phase = .handshaking
        case .handshaking, .unverified, .established:
            break
        case .closed, .failed:
            counters.datagramsDropped &+= 1
            return status
        }
        if case .handshaking = phase {
            handshakeDatagrams &+= 1
            handshakeBytes &+= datagram.count
            guard handshakeBytes <= Self.maximumHandshakeBytes, handshakeDatagrams <= Self.maximumHandshakeDatagrams
            else {
                return fail(DTLSError(.limitExceeded, "the DTLS handshake exceeds its limit of datagrams or bytes"))
            }
        }
        // Feed one record at a time: OpenSSL discards the rest of a datagram after a retransmitted record. Its response
        // to that record must not share a datagram with its next flight either, or the peer's OpenSSL would discard
        // that flight.
        var result = status
        var rest = datagram
        while let length = DTLSRecords.firstLength(rest) {
            let next = feed(UnsafeRawBufferPointer(rebasing: rest[..<length]))
            if case .handshaking = next {} else { result = next }
            rest = UnsafeRawBufferPointer(rebasing: rest[length...])
        }
        return result
    }

    /// Call this after `nextTimeout` has elapsed. It has no effect at any other time.
    package func handleTimeout() -> DTLSStatus {
        guard case .handshaking = phase else { return status }
        ErrorQueue.clear()
        let result = gst_decart_dtls_handle_timeout(connection.ssl)
        collectOutgoing()
        if result < 0 { return fail(.drained(.timeout, "the remote peer did not answer the DTLS handshake")) }
        if result > 0 { counters.retransmissions &+= 1 }
        return status
    }

    /// The time from now until `handleTimeout()` is due; nil while no flight awaits an answer.
    package var nextTimeout: Duration? {
        guard case .handshaking = phase else { return nil }
        let microseconds = gst_decart_dtls_timeout_us(connection.ssl)
        return microseconds < 0 ? nil : .microseconds(microseconds)
    }

    /// Dequeues the next datagram to send: whole records, at most `mtu` bytes. Returns nil if the queue is empty.
    package func nextOutgoingDatagram() -> [UInt8]? {
        outgoing.isEmpty ? nil : outgoing.removeFirst()
    }

    /// Queues a close_notify alert if the handshake has finished. The owner should still send the outgoing datagrams.
    package func close() {
        switch phase {
        case .established, .unverified:
            connection.shutDown()
            collectOutgoing()
            phase = .closed
        case .idle, .handshaking: phase = .closed
        case .closed, .failed: break
        }
    }

    // MARK: - Handshake and records

    private func feed(_ record: UnsafeRawBufferPointer) -> DTLSStatus {
        if case .handshaking = phase, DTLSRecords.beginsProtected(record) {
            earlyRecords &+= 1
            guard earlyRecords <= Self.maximumEarlyRecords else { return status }
        }
        connection.discardInput()
        return connection.feed(record) ? step() : status
    }

    private var status: DTLSStatus {
        switch phase {
        case .idle, .handshaking, .unverified, .established: .handshaking
        case .closed: .closed
        case .failed(let error): .failed(error)
        }
    }

    private func step() -> DTLSStatus {
        switch phase {
        case .handshaking: handshake()
        case .unverified, .established: readRecords()
        case .idle, .closed, .failed: status
        }
    }

    private func handshake() -> DTLSStatus {
        let outcome = connection.handshake()
        collectOutgoing()
        switch outcome {
        case .done:
            phase = .unverified
            return verifier.expected == nil ? status : verifyAndExport()
        case .wantsInput:
            return status
        case .closed, .failed:
            if verifier.hasRefused { return fail(Self.mismatch()) }
            return fail(.drained(.handshake, "the DTLS handshake failed"))
        }
    }

    /// Verifies the certificate again after the handshake, and only then exports the keys.
    private func verifyAndExport() -> DTLSStatus {
        guard connection.withPeerCertificate(verifier.matches) == true else {
            // close_notify ends the association for the peer, which gets no media.
            connection.shutDown()
            collectOutgoing()
            return fail(Self.mismatch())
        }
        let ssl = connection.ssl
        guard let selected = SSL_get_selected_srtp_profile(ssl)?.pointee.id else {
            return fail(DTLSError(.noSRTPProfile, "no SRTP protection profile in common with the remote peer"))
        }
        let profile: SRTPProfile
        switch Int32(truncatingIfNeeded: selected) {
        case SRTP_AEAD_AES_128_GCM: profile = .aeadAES128GCM
        case SRTP_AES128_CM_SHA1_80: profile = .aes128CMSHA1_80
        default: return fail(DTLSError(.noSRTPProfile, "the remote peer selected an SRTP profile that was not offered"))
        }
        // RFC 5764 §4.2: client and server keys, then client and server salts.
        var block = [UInt8](repeating: 0, count: 2 * (profile.keyLength + profile.saltLength))
        defer { block.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) } }
        let label = "EXTRACTOR-dtls_srtp"
        guard SSL_export_keying_material(ssl, &block, block.count, label, label.utf8.count, nil, 0, 0) == 1,
            let keys = SRTPKeyMaterial(profile: profile, exported: block, role: role)
        else { return fail(.drained(.handshake, "no keys could be exported")) }
        parameters = DTLSParameters(
            version: connection.version, cipher: connection.cipher, profile: profile.opensslName)
        phase = .established
        return .established(keys)
    }

    /// Reads records after the handshake: retransmissions of the peer's last flight, alerts, and application data,
    /// which is discarded.
    private func readRecords() -> DTLSStatus {
        defer { collectOutgoing() }
        // A datagram holds few records; the bound guards against a library that never wants more input.
        for _ in 0..<64 {
            switch scratch.withUnsafeMutableBytes({ connection.read(into: $0) }) {
            case .done: continue
            case .wantsInput: return status
            case .closed:
                phase = .closed
                return status
            case .failed: return fail(.drained(.handshake, "the DTLS connection failed"))
            }
        }
        return status
    }

    private func collectOutgoing() {
        let bytes = connection.takeOutput()
        for datagram in DTLSRecords.split(bytes, limit: mtu) where outgoing.count < Self.maximumOutgoingDatagrams {
            outgoing.append(datagram)
        }
    }

    private func fail(_ error: DTLSError) -> DTLSStatus {
        // Keep the first error, which is the cause of later ones.
        if case .failed = phase { return status }
        phase = .failed(error)
        return status
    }

    private static func mismatch() -> DTLSError {
        ErrorQueue.clear()
        return DTLSError(
            .fingerprintMismatch,
            "the DTLS certificate of the remote peer does not match the signalled fingerprint; the network path may be "
                + "intercepted")
    }
}

/// Returns the delay (µs) until the next retransmission. OpenSSL calls it as a C function without context, so it finds
/// the policy in the SSL's ex_data.
private func retransmissionTimer(_ ssl: OpaquePointer?, _ current: UInt32) -> UInt32 {
    guard let data = SSL_get_ex_data(ssl, 0) else { return DTLSRetransmission.standard.next(after: current) }
    return Unmanaged<RetransmissionTimes>.fromOpaque(data).takeUnretainedValue().policy.next(after: current)
}

private final class RetransmissionTimes {
    let policy: DTLSRetransmission
    init(_ policy: DTLSRetransmission) { self.policy = policy }
}
