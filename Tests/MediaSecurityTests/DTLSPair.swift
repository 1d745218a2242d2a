import Glibc
import MediaSecurity

/// Two ends of one association, joined in memory.
final class DTLSPair {
    let client: DTLSConnection
    let server: DTLSConnection
    let clientCertificate: DTLSCertificate
    let serverCertificate: DTLSCertificate
    private(set) var clientKeys: SRTPKeyMaterial?
    private(set) var serverKeys: SRTPKeyMaterial?
    private(set) var clientError: DTLSError?
    private(set) var serverError: DTLSError?
    private(set) var clientClosed = false
    private(set) var serverClosed = false
    private(set) var largestDatagram = 0
    private(set) var datagrams = 0

    init(
        client clientCertificate: DTLSCertificate? = nil, server serverCertificate: DTLSCertificate? = nil,
        mtu: Int = 1_200, fingerprints: Bool = true,
        clientProfiles: [SRTPProfile] = [.aeadAES128GCM, .aes128CMSHA1_80],
        serverProfiles: [SRTPProfile] = [.aeadAES128GCM, .aes128CMSHA1_80],
        retransmission: DTLSRetransmission = .never
    ) throws {
        self.clientCertificate = try clientCertificate ?? .generate()
        self.serverCertificate = try serverCertificate ?? .generate()
        client = try DTLSConnection(
            role: .client, certificate: self.clientCertificate, mtu: mtu, profiles: clientProfiles,
            retransmission: retransmission)
        server = try DTLSConnection(
            role: .server, certificate: self.serverCertificate, mtu: mtu, profiles: serverProfiles,
            retransmission: retransmission)
        if fingerprints {
            client.setRemoteFingerprints([self.serverCertificate.fingerprint])
            server.setRemoteFingerprints([self.clientCertificate.fingerprint])
        }
    }

    func note(_ status: DTLSStatus, client isClient: Bool) {
        switch status {
        case .handshaking: break
        case .established(let keys): if isClient { clientKeys = keys } else { serverKeys = keys }
        case .failed(let error): if isClient { clientError = error } else { serverError = error }
        case .closed: if isClient { clientClosed = true } else { serverClosed = true }
        }
    }

    func deliver(_ datagram: [UInt8], toClient: Bool) {
        let connection = toClient ? client : server
        note(datagram.withUnsafeBytes { connection.receive($0) }, client: toClient)
    }

    /// What is outgoing at one end, with the largest noted.
    func take(fromClient: Bool) -> [[UInt8]] {
        let connection = fromClient ? client : server
        var taken: [[UInt8]] = []
        while let datagram = connection.nextOutgoingDatagram() {
            largestDatagram = max(largestDatagram, datagram.count)
            datagrams += 1
            taken.append(datagram)
        }
        return taken
    }

    func start() {
        note(server.start(), client: false)
        note(client.start(), client: true)
    }

    /// Hands over everything that is outgoing until both are silent.
    func run() {
        while step() {}
    }

    /// One exchange; false when both were silent.
    func step() -> Bool {
        let fromClient = take(fromClient: true)
        for datagram in fromClient { deliver(datagram, toClient: false) }
        let fromServer = take(fromClient: false)
        for datagram in fromServer { deliver(datagram, toClient: true) }
        return !fromClient.isEmpty || !fromServer.isEmpty
    }

    /// Fires the earlier one of the retransmission timers when it is due. False when no timer runs.
    func fireTimer() -> Bool {
        let due = [true, false].compactMap { isClient in
            (isClient ? client : server).nextTimeout.map { (isClient: isClient, left: $0) }
        }
        guard let next = due.min(by: { $0.left < $1.left }) else { return false }
        let connection = next.isClient ? client : server
        guard Self.waitUntilDue(connection) else { return false }
        note(connection.handleTimeout(), client: next.isClient)
        return true
    }

    /// Blocks for as long as the connection says that its timer still has to run: OpenSSL's timer knows no other clock than
    /// the machine's. False when no timer runs, or when it is not due after that.
    static func waitUntilDue(_ connection: DTLSConnection) -> Bool {
        // A signal may end a pause early, and the rest of it is rounded: a few pauses.
        for _ in 0..<10 {
            guard let left = connection.nextTimeout else { return false }
            if left == .zero { return true }
            usleep(UInt32(clamping: left.components.seconds * 1_000_000 + left.components.attoseconds / 1_000_000_000_000 + 1))
        }
        return false
    }

    var isEstablished: Bool { clientKeys != nil && serverKeys != nil }
    var hasFailed: Bool { clientError != nil || serverError != nil }
}

extension DTLSRetransmission {
    /// For tests in which nothing is lost: however slow the machine, no timer interferes.
    static let never = DTLSRetransmission(first: .seconds(50), limit: .seconds(50))
}
