// The client's side of a binding request or of a TURN allocation, as a value: bytes go in, steps come out. The driver
// is `STUNProbe`, which repeats requests and limits the time.
package import ICE

package struct STUNClient: Sendable {
    package enum Step: Sendable, Equatable {
        /// The message is not an answer to the request.
        case none
        case send([UInt8])
        case done(Answer)
    }

    package enum Answer: Sendable, Equatable {
        /// The server answered the binding request; nil: without an address.
        case mapped(String?)
        /// The server allocated this address. `release` is the request that frees it.
        case relayed(String, release: [UInt8])
        /// The server rejected the credentials.
        case refused
        case failed(code: Int, reason: String)
        /// The answer does not follow the protocol, or this machine's OpenSSL cannot make the request.
        case invalid
    }

    private let server: ICEServer
    private let newTransaction: @Sendable () -> [UInt8]
    private var transaction: [UInt8] = []
    private var realm: [UInt8] = []
    private var nonce: [UInt8] = []
    private var hasCredentials = false
    /// Nonces that expired while they were used; a server may do that once.
    private var staleCount = 0

    /// - Parameter newTransaction: makes a random transaction ID of 12 bytes.
    package init(
        server: ICEServer,
        newTransaction: @escaping @Sendable () -> [UInt8] = { (0..<12).map { _ in UInt8.random(in: .min ... .max) } }
    ) {
        self.server = server
        self.newTransaction = newTransaction
    }

    /// Returns the first request.
    package mutating func start() -> [UInt8] { request() ?? [] }

    package mutating func received(_ bytes: [UInt8]) -> Step {
        guard let message = STUNMessage(decoding: bytes), message.transaction == transaction,
            message.messageClass != .request
        else { return .none }
        if message.messageClass == .success { return .done(success(message)) }
        guard let (code, reason) = message.error else { return .done(.invalid) }
        switch code {
        case 401 where server.kind == .turn && !hasCredentials,
            438 where hasCredentials && staleCount == 0:
            if code == 438 { staleCount += 1 }
            return authenticate(message)
        case 401: return .done(.refused)
        default: return .done(.failed(code: code, reason: reason))
        }
    }

    private mutating func authenticate(_ message: STUNMessage) -> Step {
        guard let realm = message[STUNMessage.AttributeType.realm] ?? (self.realm.isEmpty ? nil : self.realm),
            let nonce = message[STUNMessage.AttributeType.nonce]
        else { return .done(.invalid) }
        (self.realm, self.nonce, hasCredentials) = (realm, nonce, true)
        return request().map(Step.send) ?? .done(.invalid)
    }

    private func success(_ message: STUNMessage) -> Answer {
        guard server.kind == .turn else { return .mapped(message.mappedAddress) }
        guard let relayed = message.xorAddress(STUNMessage.AttributeType.xorRelayedAddress) else { return .invalid }
        let zero = STUNMessage.Attribute(STUNMessage.AttributeType.lifetime, [0, 0, 0, 0])
        let release = STUNMessage(.refresh, transaction: newTransaction(), attributes: [zero] + credentials)
        return .relayed(relayed, release: release.encoded(key: key) ?? [])
    }

    private mutating func request() -> [UInt8]? {
        transaction = newTransaction()
        guard server.kind == .turn else { return STUNMessage(.binding, transaction: transaction).encoded() }
        // RFC 8656 §18.7: 17 is UDP, the transport between relay and peer.
        let transport = STUNMessage.Attribute(STUNMessage.AttributeType.requestedTransport, [17, 0, 0, 0])
        let message = STUNMessage(.allocate, transaction: transaction, attributes: [transport] + credentials)
        guard hasCredentials else { return message.encoded() }
        return key.flatMap { message.encoded(key: $0) }
    }

    private var credentials: [STUNMessage.Attribute] {
        guard hasCredentials else { return [] }
        return [
            STUNMessage.Attribute(STUNMessage.AttributeType.username, [UInt8]((server.username ?? "").utf8)),
            STUNMessage.Attribute(STUNMessage.AttributeType.realm, realm),
            STUNMessage.Attribute(STUNMessage.AttributeType.nonce, nonce),
        ]
    }

    private var key: [UInt8]? {
        guard hasCredentials else { return nil }
        return STUNMessage.longTermKey(
            username: server.username ?? "", realm: String(decoding: realm, as: UTF8.self),
            password: server.credential ?? "")
    }
}
