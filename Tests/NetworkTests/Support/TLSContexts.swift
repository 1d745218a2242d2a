import MediaSecurity
import TestSupport

/// A server that has several names, and a client that trusts it. The openssl command makes the certificates, once.
struct TLSContexts: Sendable {
    static let shared = Result { try TLSContexts() }

    let client: TLSClientContext
    let server: TLSServerContext

    private init() throws {
        let certificates = try Certificates()
        server = try certificates.server(
            name: "server", san: "DNS:localhost,DNS:service.test,IP:127.0.0.1,IP:192.0.2.1")
        client = try TLSClientContext(roots: .only(readFile(certificates.path("ca.pem"))), protocols: [])
    }
}
