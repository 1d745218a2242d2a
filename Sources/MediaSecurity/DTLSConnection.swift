// One DTLS 1.2 association over memory BIOs (RFC 5764, RFC 8827). It knows no socket and no thread. The retransmission
// timer is OpenSSL's own, the one place where a clock hides; the owner asks `nextTimeout` and calls `handleTimeout()`.
private import COpenSSL

/// Owned by one thread. Feed it datagrams, take its datagrams away after every call, and re-arm a timer with
/// `nextTimeout` after every call (trap D3).
///
/// No key leaves before the peer's certificate has matched a fingerprint from the signalling, in either role.
package final class DTLSConnection {
    /// A handshake with an RSA chain takes under 10 KiB; a peer that needs more than this has something else in mind.
    static let maximumHandshakeBytes = 256 * 1_024
    static let maximumHandshakeDatagrams = 2_000
    /// Protected records that are looked at during a handshake. OpenSSL keeps a whole buffer, some 17 KiB, for each
    /// that comes before the peer's change_cipher_spec.
    static let maximumEarlyRecords = 32
    /// What waits for `nextOutgoingDatagram()`; the owner is expected to drain after each call.
    static let maximumOutgoingDatagrams = 64

    package let role: DTLSRole
    package private(set) var counters = DTLSCounters()

    private enum Phase {
        case idle
        case handshaking
        /// The handshake is over, the signalling has not yet said who the peer is.
        case unverified
        case established
        case closed
        case failed(DTLSError)
    }

    private let mtu: Int
    private let context: OpaquePointer
    private let ssl: OpaquePointer
    /// Owned by `ssl`.
    private let inbound: OpaquePointer
    private let outbound: OpaquePointer
    private let verifier: PeerVerifier
    /// Lent to `ssl` as application data.
    private let times: RetransmissionTimes
    private var phase = Phase.idle
    private var handshakeBytes = 0
    private var handshakeDatagrams = 0
    private var earlyRecords = 0
    private var outgoing: [[UInt8]] = []
    private var scratch = [UInt8](repeating: 0, count: 2_048)

    /// - Parameters:
    ///   - mtu: the largest datagram to send, in bytes of UDP payload; 256 at least.
    ///   - profiles: what to offer or accept, preferred first.
    package init(
        role: DTLSRole, certificate: DTLSCertificate, mtu: Int = 1_200,
        profiles: [SRTPProfile] = [.aeadAES128GCM, .aes128CMSHA1_80],
        retransmission: DTLSRetransmission = .standard
    ) throws(DTLSError) {
        ERR_clear_error()
        self.role = role
        self.mtu = min(max(mtu, 256), 16_384)
        verifier = PeerVerifier()
        context = try DTLSContext.make(certificate: certificate, profiles: profiles, verifier: verifier)
        guard let ssl = SSL_new(context), let inbound = gst_decart_memory_bio(), let outbound = gst_decart_memory_bio()
        else {
            SSL_CTX_free(context)
            throw .drained(.setup, "no DTLS connection")
        }
        // Both references go to `ssl`.
        SSL_set_bio(ssl, inbound, outbound)
        gst_decart_ssl_set_mtu(ssl, self.mtu)
        times = RetransmissionTimes(retransmission)
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(times).toOpaque())
        DTLS_set_timer_cb(ssl, retransmissionTimer)
        switch role {
        case .client: SSL_set_connect_state(ssl)
        case .server: SSL_set_accept_state(ssl)
        }
        self.ssl = ssl
        self.inbound = inbound
        self.outbound = outbound
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
    }

    /// What the signalling said about the peer's certificate; any one of them may match. May come after the peer's
    /// ClientHello: a handshake that is already over is completed, or refused, by this call.
    ///
    /// Without any usable fingerprint the connection fails: nobody can be verified.
    @discardableResult
    package func setRemoteFingerprints(_ fingerprints: [Fingerprint]) -> DTLSStatus {
        guard verifier.expected == nil else { return status }
        guard !fingerprints.isEmpty else {
            return fail(DTLSError(.fingerprintMismatch, "the peer announced no usable certificate fingerprint"))
        }
        verifier.expected = fingerprints
        guard case .unverified = phase else { return status }
        return verifyAndExport()
    }

    /// A client sends its ClientHello; a server begins to listen.
    @discardableResult
    package func start() -> DTLSStatus {
        guard case .idle = phase else { return status }
        phase = .handshaking
        return step()
    }

    /// Takes one datagram of the peer. Anything that is not plausible DTLS is dropped and counted.
    package func receive(_ datagram: UnsafeRawBufferPointer) -> DTLSStatus {
        counters.datagramsReceived &+= 1
        guard DTLSRecords.isPlausible(datagram) else {
            counters.datagramsDropped &+= 1
            return status
        }
        switch phase {
        case .idle:
            // A server's peer may be faster than its owner; a client has not spoken yet, so nothing can be for it.
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
            else { return fail(DTLSError(.limitExceeded, "the peer's DTLS handshake does not end")) }
        }
        // One record at a time: behind a retransmitted one OpenSSL loses the rest of a datagram, and what it sends in
        // return must not be joined with the next flight, or the peer's OpenSSL loses that.
        var result = status
        var rest = datagram
        while let length = DTLSRecords.firstLength(rest), let count = Int32(exactly: length) {
            let next = feed(rest, count: count)
            if case .handshaking = next {} else { result = next }
            rest = UnsafeRawBufferPointer(rebasing: rest[length...])
        }
        return result
    }

    /// To be called when `nextTimeout` has passed; harmless at any other time.
    package func handleTimeout() -> DTLSStatus {
        guard case .handshaking = phase else { return status }
        ERR_clear_error()
        let result = gst_decart_dtls_handle_timeout(ssl)
        collectOutgoing()
        if result < 0 { return fail(.drained(.timeout, "the peer does not answer the DTLS handshake")) }
        if result > 0 { counters.retransmissions &+= 1 }
        return status
    }

    /// How long until `handleTimeout()` is due, counted from now; `nil` while nothing waits for an answer.
    package var nextTimeout: Duration? {
        guard case .handshaking = phase else { return nil }
        let microseconds = gst_decart_dtls_timeout_us(ssl)
        return microseconds < 0 ? nil : .microseconds(microseconds)
    }

    /// The next datagram to send, at most `mtu` bytes of whole records; `nil` when there is none.
    package func nextOutgoingDatagram() -> [UInt8]? {
        outgoing.isEmpty ? nil : outgoing.removeFirst()
    }

    /// Queues close_notify where there is someone to hear it. The owner sends what is outgoing and lets go.
    package func close() {
        switch phase {
        case .established, .unverified:
            ERR_clear_error()
            _ = SSL_shutdown(ssl)
            ERR_clear_error()
            collectOutgoing()
            phase = .closed
        case .idle, .handshaking: phase = .closed
        case .closed, .failed: break
        }
    }

    // MARK: - Steps

    private func feed(_ record: UnsafeRawBufferPointer, count: Int32) -> DTLSStatus {
        if case .handshaking = phase, DTLSRecords.beginsProtected(record) {
            earlyRecords &+= 1
            guard earlyRecords <= Self.maximumEarlyRecords else { return status }
        }
        gst_decart_bio_reset(inbound)
        guard BIO_write(inbound, record.baseAddress, count) == count else { return status }
        return step()
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
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            collectOutgoing()
            phase = .unverified
            return verifier.expected == nil ? status : verifyAndExport()
        }
        let reason = SSL_get_error(ssl, result)
        collectOutgoing()
        switch reason {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            ERR_clear_error()
            return status
        default:
            if verifier.hasRefused { return fail(Self.mismatch()) }
            return fail(.drained(.handshake, "the DTLS handshake failed"))
        }
    }

    /// Compares the certificate a second time, from the finished handshake, and only then asks for keys.
    private func verifyAndExport() -> DTLSStatus {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return fail(Self.mismatch()) }
        defer { X509_free(certificate) }
        guard verifier.matches(certificate) else {
            // Tells the peer that this association is over; it will see no media.
            _ = SSL_shutdown(ssl)
            collectOutgoing()
            return fail(Self.mismatch())
        }
        guard let selected = SSL_get_selected_srtp_profile(ssl)?.pointee.id else {
            return fail(DTLSError(.noSRTPProfile, "the peer takes none of our SRTP profiles"))
        }
        let profile: SRTPProfile
        switch Int32(truncatingIfNeeded: selected) {
        case SRTP_AEAD_AES_128_GCM: profile = .aeadAES128GCM
        case SRTP_AES128_CM_SHA1_80: profile = .aes128CMSHA1_80
        default: return fail(DTLSError(.noSRTPProfile, "the peer chose an SRTP profile that was not offered"))
        }
        // RFC 5764 §4.2.
        var block = [UInt8](repeating: 0, count: 2 * (profile.keyLength + profile.saltLength))
        defer { block.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) } }
        let label = "EXTRACTOR-dtls_srtp"
        guard SSL_export_keying_material(ssl, &block, block.count, label, label.utf8.count, nil, 0, 0) == 1,
            let keys = SRTPKeyMaterial(profile: profile, exported: block, role: role)
        else { return fail(.drained(.handshake, "no keys could be exported")) }
        phase = .established
        return .established(keys)
    }

    /// After the handshake: retransmissions of the peer's last flight, alerts, and data that nobody asked for.
    private func readRecords() -> DTLSStatus {
        ERR_clear_error()
        // One datagram holds few records; the bound is against a library that would never say "no more".
        for _ in 0..<64 {
            let result = scratch.withUnsafeMutableBytes { SSL_read(ssl, $0.baseAddress, Int32(clamping: $0.count)) }
            if result > 0 { continue }
            let reason = SSL_get_error(ssl, result)
            collectOutgoing()
            switch reason {
            case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
                ERR_clear_error()
                return status
            case SSL_ERROR_ZERO_RETURN:
                ERR_clear_error()
                phase = .closed
                return status
            default:
                return fail(.drained(.handshake, "the DTLS association broke"))
            }
        }
        collectOutgoing()
        return status
    }

    private func collectOutgoing() {
        let pending = gst_decart_bio_pending(outbound)
        guard pending > 0, let count = Int32(exactly: pending) else { return }
        var bytes = [UInt8](repeating: 0, count: pending)
        guard BIO_read(outbound, &bytes, count) == count else { return }
        for datagram in DTLSRecords.split(bytes, limit: mtu) where outgoing.count < Self.maximumOutgoingDatagrams {
            outgoing.append(datagram)
        }
    }

    private func fail(_ error: DTLSError) -> DTLSStatus {
        // The first reason is the true one.
        if case .failed = phase { return status }
        phase = .failed(error)
        return status
    }

    private static func mismatch() -> DTLSError {
        ERR_clear_error()
        return DTLSError(
            .fingerprintMismatch, "the peer's DTLS certificate is not the one that the signalling announced")
    }
}

/// Microseconds until the next retransmission; a C function, so the times come by way of the SSL's application data.
private func retransmissionTimer(_ ssl: OpaquePointer?, _ current: UInt32) -> UInt32 {
    guard let data = SSL_get_ex_data(ssl, 0) else { return DTLSRetransmission.standard.next(after: current) }
    return Unmanaged<RetransmissionTimes>.fromOpaque(data).takeUnretainedValue().policy.next(after: current)
}

private final class RetransmissionTimes {
    let policy: DTLSRetransmission
    init(_ policy: DTLSRetransmission) { self.policy = policy }
}
