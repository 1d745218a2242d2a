import MediaSecurity
import TestSupport

/// A client and a server, joined in memory.
final class TLSPair {
    let client: TLSSession
    let server: TLSSession
    private(set) var atClient: [UInt8] = []
    private(set) var atServer: [UInt8] = []

    init(client: TLSClientContext, server: TLSServerContext, host: String = "localhost") throws {
        self.client = try TLSSession(client: client, serverName: host)
        self.server = try TLSSession(server: server)
    }

    /// A pair whose client trusts the authority.
    convenience init(
        _ authority: TestAuthority, _ files: TestAuthority.Files, host: String = "localhost", protocols: [String] = [],
        maximumVersion: TLSVersion? = nil
    ) throws {
        try self.init(
            client: .init(roots: .only(readFile(authority.authority.certificate)), protocols: protocols),
            server: .init(
                certificateChainFile: files.certificate, privateKeyFile: files.key, maximumVersion: maximumVersion),
            host: host)
    }

    /// Delivers in both directions until neither end has output.
    /// - Parameter size: the size of the next piece that a socket hands over.
    func run(pieces size: () -> Int = { .max }) {
        while client.hasOutput || server.hasOutput {
            deliver(client.takeOutput(), to: server, into: &atServer, size)
            deliver(server.takeOutput(), to: client, into: &atClient, size)
        }
    }

    func handshake() {
        client.start()
        run()
    }

    private func deliver(_ bytes: [UInt8], to end: TLSSession, into data: inout [UInt8], _ size: () -> Int) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = rest.prefix(max(1, size()))
            rest = rest.dropFirst(piece.count)
            end.receive(piece)
            while let read = end.read() { data += read }
        }
    }
}

extension TLSSession {
    func receive(_ bytes: some Sequence<UInt8>) { Array(bytes).withUnsafeBytes { receive($0) } }

    func write(_ bytes: some Sequence<UInt8>) -> Int { Array(bytes).withUnsafeBytes { write($0) } }

    var error: TLSError? { if case .failed(let error) = state { error } else { nil } }
}

/// The error that `body` throws.
func tlsError(_ body: () throws -> Void) -> TLSError? {
    do {
        try body()
        return nil
    } catch {
        return error as? TLSError
    }
}
