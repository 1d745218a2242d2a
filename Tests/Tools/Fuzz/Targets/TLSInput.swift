// TLS from a hostile peer, and TLS of an honest one with bytes changed on the way. Whatever arrives, what is read is a
// beginning of what was written, and it is complete if the end is a clean one.
import MediaSecurity
import TestSupport

private let data = [UInt8](repeating: 0x64, count: 100)

/// The certificate's key is a new one in each process, as are OpenSSL's random numbers.
private let contexts: (client: TLSClientContext, server: TLSServerContext) = {
    do {
        let authority = try TestAuthority()
        let files = try authority.issue("server", extensions: "subjectAltName=DNS:localhost")
        return (
            try .init(roots: .only(readFile(authority.authority.certificate)), protocols: ["http/1.1"]),
            try .init(certificateChainFile: files.certificate, privateKeyFile: files.key)
        )
    } catch {
        fatalError("the fuzzer's certificate cannot be made: \(error)")
    }
}()

/// The first byte chooses who reads the input, and when; the rest are records, or changes of two bytes each.
func tlsInput(_ bytes: [UInt8]) {
    guard let choice = bytes.first, let client = try? TLSSession(client: contexts.client, serverName: "localhost"),
        let server = try? TLSSession(server: contexts.server)
    else { return }
    let (end, peer) = choice & 1 == 0 ? (client, server) : (server, client)
    client.start()
    let isOpen = choice & 2 != 0
    if isOpen { while client.hasOutput || server.hasOutput { exchange(client, server) } }
    let size = Int(choice >> 3) * 16 + 1
    guard choice & 4 != 0 else {
        var rest = bytes.dropFirst()
        while !rest.isEmpty {
            receive(Array(rest.prefix(size)), at: end)
            rest = rest.dropFirst(size)
            precondition(isOpen || end.state != .open)
        }
        precondition(read(end).isEmpty)
        return finish(end)
    }
    var changes = bytes.dropFirst()
    var received: [UInt8] = []
    var hasWritten = false
    for _ in 0..<6 {
        receive(end.takeOutput(), at: peer)
        _ = read(peer)
        if peer.state == .open, !hasWritten {
            hasWritten = data.withUnsafeBytes(peer.write) == data.count
            peer.close()
        }
        var flight = peer.takeOutput()
        for index in stride(from: Int(changes.popFirst() ?? 255) * 4, to: flight.count, by: 1_024) {
            flight[index] ^= changes.popFirst() ?? 0
        }
        receive(flight, at: end)
        received += read(end)
    }
    precondition(data.starts(with: received))
    finish(end)
    precondition(end.state != .closed || received == data)
}

private func exchange(_ client: TLSSession, _ server: TLSSession) {
    receive(client.takeOutput(), at: server)
    _ = read(server)
    receive(server.takeOutput(), at: client)
    _ = read(client)
}

private func receive(_ bytes: [UInt8], at end: TLSSession) { bytes.withUnsafeBytes(end.receive) }

private func read(_ end: TLSSession) -> [UInt8] {
    var read: [UInt8] = []
    while let piece = end.read() { read += piece }
    return read
}

/// After the end of the TCP connection there is no third state.
private func finish(_ end: TLSSession) {
    end.close()
    end.receivedEnd()
    if case .failed = end.state { return }
    precondition(end.state == .closed)
}
