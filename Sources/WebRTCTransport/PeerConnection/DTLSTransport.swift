// The DTLS transport of a connection: the handshake over the ICE transport, its timers, and the keys for SRTP. The
// association outlives ICE restarts.
import EventLoopThreads
import ICE
import Log
import MediaSecurity

// @unchecked: `parameters(of:setup:)` may be called on any thread; all else that is not constant belongs to the network
// thread. The owner sets the closures before the first session.
final class DTLSTransport: @unchecked Sendable {
    var onKeys: (SRTPTransform) -> Void = { _ in }
    var onFailure: (PeerConnectionError) -> Void = { _ in }

    private let ice: ICETransport
    private let network: NetworkThread
    private let certificate: DTLSCertificate
    private let logger: Logger

    // MARK: Network thread only
    private var connection: DTLSConnection?
    private var timer: NetworkTimer?
    private var logTimer: NetworkTimer?
    private var remoteIsKnown = false
    private var iceConnectedAt: ContinuousClock.Instant?
    private var connectedAt: ContinuousClock.Instant?
    /// True after a failure or `close`. Data are ignored then: a flight that was under way must not key SRTP again.
    private var isOver = false

    /// Wait for the handshake after which the log says so.
    private static let handshakeWait = Duration.seconds(3)

    /// Generates the certificate.
    init(over ice: ICETransport, network: NetworkThread, loggers: TransportLoggers) throws(PeerConnectionError) {
        (self.ice, self.network) = (ice, network)
        logger = loggers.dtls
        do { certificate = try DTLSCertificate.generate() } catch {
            throw PeerConnectionError(.dtls, "the DTLS certificate could not be generated: \(error)")
        }
    }

    func parameters(of session: ICESession, setup: String) -> TransportParameters {
        TransportParameters(
            usernameFragment: session.agent.localUsernameFragment, password: session.agent.localPassword,
            fingerprints: [certificate.fingerprint], setup: setup)
    }

    func setRemote(_ fingerprints: [Fingerprint], role: DTLSRole) throws(DTLSError) {
        guard !isOver else { return }
        // An early ClientHello created a DTLS server (`receive`), but the answer may make us the client.
        if connection?.role != role { connection = try DTLSConnection(role: role, certificate: certificate) }
        remoteIsKnown = true
        if let status = connection?.setRemoteFingerprints(fingerprints) { advance(status) }
        startIfReady()
    }

    func iceConnected() {
        iceConnectedAt = .now
        logTimer = network.schedule(after: Self.handshakeWait) { [weak self] in self?.checkHandshake() }
        startIfReady()
    }

    private func checkHandshake() {
        guard connectedAt == nil, let iceConnectedAt else { return }
        logger.info("no answer to the DTLS handshake for \((.now - iceConnectedAt).milliseconds)")
    }

    private func startIfReady() {
        guard iceConnectedAt != nil, remoteIsKnown, !isOver, let connection else { return }
        advance(connection.start())
    }

    func receive(_ datagram: UnsafeRawBufferPointer) {
        guard !isOver else { return }
        // A ClientHello may arrive before the answer that carries its fingerprint. A server starts the handshake with
        // it; the fingerprint is checked once it is known.
        if connection == nil, !remoteIsKnown {
            connection = try? DTLSConnection(role: .server, certificate: certificate)
        }
        guard let connection else { return }
        advance(connection.receive(datagram))
    }

    private func advance(_ status: DTLSStatus) {
        if case .failed(let error) = status {
            if !isOver { logger.info("failed: \(error.description)") }
            onFailure(
                PeerConnectionError(
                    error.code == .fingerprintMismatch ? .fingerprintMismatch : .dtls, error.description))
            // Send the alert after the event: the remote peer closes its signalling channel on the alert, and that must
            // not overtake the reason.
            return network.async { [self] in flush() }
        }
        flush()
        switch status {
        case .handshaking, .failed: break
        case .established(let keys):
            do {
                let transform = try SRTPTransform(keys: keys)
                connectedAt = .now
                logTimer?.cancel()
                logConnection()
                onKeys(transform)
            } catch {
                onFailure(PeerConnectionError(.dtls, "SRTP could not be set up: \(error)"))
            }
        case .closed:
            onFailure(.closedByPeer)
        }
    }

    private func logConnection() {
        logger.info("connected after \((handshakeTime ?? .zero).milliseconds)")
        guard let connection else { return }
        logger.debug(
            """
            \(connection.parameters.version), \(connection.parameters.cipher), \
            \(connection.role == .client ? "client" : "server"), \(connection.parameters.profile), \
            \(connection.counters.retransmissions) retransmissions
            """)
    }

    private func flush() {
        sendDatagrams()
        timer?.cancel()
        if let wait = connection?.nextTimeout {
            timer = network.schedule(after: wait) { [weak self] in
                guard let self, !self.isOver, let connection = self.connection else { return }
                self.advance(connection.handleTimeout())
            }
        }
    }

    private func sendDatagrams() {
        while let datagram = connection?.nextOutgoingDatagram() {
            _ = datagram.withUnsafeBytes { ice.agent?.send($0) }
        }
    }

    private var handshakeTime: Duration? { iceConnectedAt.flatMap { from in connectedAt.map { $0 - from } } }

    func fill(_ statistics: inout PeerConnectionStatistics) {
        statistics.dtlsTime = handshakeTime
        statistics.dtls = connection?.parameters
    }

    // MARK: End

    /// The connection has failed; the association stays until `close`.
    func stop() { isOver = true }

    func close() {
        isOver = true
        if let connection, iceConnectedAt != nil {
            connection.close()
            sendDatagrams()
        }
        timer?.cancel()
        logTimer?.cancel()
        connection = nil
    }
}
