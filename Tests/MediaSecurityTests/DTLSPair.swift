import MediaSecurity

/// Two ends of one association, joined in memory.
final class DTLSPair {
    let client: DTLSConnection
    let server: DTLSConnection
    let clientCertificate: DTLSCertificate
    let serverCertificate: DTLSCertificate
    var clientKeys: SRTPKeyMaterial?
    var serverKeys: SRTPKeyMaterial?
    var clientError: DTLSError?
    var serverError: DTLSError?
    var clientClosed = false
    var serverClosed = false
    var largestDatagram = 0

    init(
        client clientCertificate: DTLSCertificate? = nil, server serverCertificate: DTLSCertificate? = nil,
        mtu: Int = 1_200, fingerprints: Bool = true
    ) throws {
        self.clientCertificate = try clientCertificate ?? .generate()
        self.serverCertificate = try serverCertificate ?? .generate()
        client = try DTLSConnection(role: .client, certificate: self.clientCertificate, mtu: mtu)
        server = try DTLSConnection(role: .server, certificate: self.serverCertificate, mtu: mtu)
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

    /// Hands over everything that is outgoing until both are silent.
    func run() {
        var moved = true
        while moved {
            moved = false
            while let datagram = client.nextOutgoingDatagram() {
                moved = true
                largestDatagram = max(largestDatagram, datagram.count)
                deliver(datagram, toClient: false)
            }
            while let datagram = server.nextOutgoingDatagram() {
                moved = true
                largestDatagram = max(largestDatagram, datagram.count)
                deliver(datagram, toClient: true)
            }
        }
    }

    func start() {
        note(server.start(), client: false)
        note(client.start(), client: true)
    }

    var isEstablished: Bool { clientKeys != nil && serverKeys != nil }
}
