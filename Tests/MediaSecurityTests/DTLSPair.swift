import Dispatch
import MediaSecurity

/// Both endpoints of a DTLS association, joined in memory.
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

    /// Returns one endpoint's outgoing datagrams and records the largest size.
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

    /// Starts both endpoints and lets them finish, by success or failure.
    func handshake() {
        start()
        run()
    }

    /// Delivers outgoing datagrams until neither endpoint has any.
    func run() {
        while step() {}
    }

    /// Delivers once in each direction; false if neither endpoint had outgoing datagrams.
    func step() -> Bool {
        let fromClient = take(fromClient: true)
        for datagram in fromClient { deliver(datagram, toClient: false) }
        let fromServer = take(fromClient: false)
        for datagram in fromServer { deliver(datagram, toClient: true) }
        return !fromClient.isEmpty || !fromServer.isEmpty
    }

    /// Fires the retransmission timer that is due first. Returns false if no timer runs.
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

    /// Blocks until the connection's timer is due, because OpenSSL's timer uses the system clock only. Returns false if
    /// no timer runs, or if it is still not due afterwards.
    static func waitUntilDue(_ connection: DTLSConnection) -> Bool {
        // The rest is rounded: arm the timer again.
        for _ in 0..<10 {
            guard let left = connection.nextTimeout else { return false }
            if left == .zero { return true }
            let fired = DispatchSemaphore(value: 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(Int(left / .microseconds(1)) + 1)) {
                fired.signal()
            }
            fired.wait()
        }
        return false
    }

    var isEstablished: Bool { clientKeys != nil && serverKeys != nil }
    var hasFailed: Bool { clientError != nil || serverError != nil }
}

extension DTLSRetransmission {
    /// For tests without loss: no timer interferes, however slow the machine.
    static let never = DTLSRetransmission(first: .seconds(50), limit: .seconds(50))
}
