import EventLoopThreads
import Glibc
import MediaSecurity
import TestSupport
import Testing

import Network

/// Streams with TLS at both ends.
@Suite(.timeLimit(.minutes(2)))
struct SecureStreamTests {
    private struct Ends: Sendable {
        let client: ByteStream
        let server: ByteStream
        let clientLog = StreamLog()
        let serverLog = StreamLog()

        init() throws {
            let contexts = try TLSContexts.shared.get()
            let listener = try LoopbackSocket(stream: true)
            let (descriptor, error) = LoopbackSocket.connect(to: listener.port)
            try #require(error == 0)
            let accepted = accept(listener.descriptor, nil, nil)
            for descriptor in [descriptor, accepted] {
                _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
                keepBuffersSmall(descriptor)
            }
            self.client = ByteStream(taking: descriptor, isConnected: true, on: .test)
            self.server = ByteStream(taking: accepted, isConnected: true, on: .test)
            try NetworkThread.test.sync { [self] in
                clientLog.follow(self.client)
                serverLog.follow(self.server)
                self.server.secure(try TLSSession(server: contexts.server))
                self.client.secure(try TLSSession(client: contexts.client, serverName: "localhost"))
                self.client.start()
                self.server.start()
            }
        }

        func onThread(_ body: @escaping @Sendable () -> Void) { NetworkThread.test.sync(body) }

        func secured() async {
            await clientLog.wait("the client's handshake") { $0.isSecured }
            await serverLog.wait("the server's handshake") { $0.isSecured }
        }
    }

    /// What is written before the handshake waits for it.
    @Test func muchPassesBothWaysAndEndsInOrder() async throws {
        let ends = try Ends()
        let bytes = pattern(many)
        let completions = EventLog<Int>()
        ends.onThread {
            ends.client.write(bytes) { completions.append(1) }
            ends.server.write(bytes) { completions.append(2) }
            #expect(!ends.client.isWritable)
        }
        await ends.clientLog.wait("the server's bytes") { $0.bytes.count >= bytes.count }
        await ends.serverLog.wait("the client's bytes") { $0.bytes.count >= bytes.count }
        #expect(ends.clientLog.value.bytes == bytes && ends.serverLog.value.bytes == bytes)
        #expect(await completions.reaches(count: 2))
        ends.onThread {
            #expect(ends.client.facts?.version == .tls13)
            ends.client.finish(within: .seconds(40))
        }
        #expect(await ends.serverLog.end() == nil)
    }

    /// close_notify follows the last data, in order.
    @Test(arguments: [false, true]) func whatWaitsIsSentBeforeTheEnd(isPaused: Bool) async throws {
        let ends = try Ends()
        await ends.secured()
        let bytes = pattern(many)
        ends.onThread {
            if isPaused { ends.client.setReading(false) }
            ends.server.write(bytes)
            ends.server.finish(within: .seconds(40))
        }
        if isPaused {
            for _ in 0..<3 { ends.onThread {} }
            ends.onThread { ends.client.setReading(true) }
        }
        #expect(await ends.clientLog.end() == nil)
        #expect(ends.clientLog.value.bytes == bytes)
    }

    /// The end comes while the owner pauses in the middle of what has arrived.
    @Test func aPauseKeepsRecordsAndTheEnd() async throws {
        let ends = try Ends()
        await ends.secured()
        ends.onThread {
            ends.clientLog.follow(ends.client) { [client = ends.client] in
                client.setReading(false)
                client.thread.later { client.setReading(true) }
            }
            for number in 0..<100 { ends.server.write(pattern(7, from: 7 * number)) }
            ends.server.close()
        }
        #expect(await ends.clientLog.end() == nil)
        #expect(ends.clientLog.value.bytes == pattern(700))
    }

    @Test func closeSendsWhatTheSystemTakes() async throws {
        let ends = try Ends()
        await ends.secured()
        ends.onThread {
            ends.server.write([1, 2, 3])
            ends.server.close()
        }
        #expect(await ends.clientLog.end() == nil)
        #expect(ends.clientLog.value.bytes == [1, 2, 3])
    }

    @Test func aResetIsAnError() async throws {
        let ends = try Ends()
        await ends.secured()
        ends.onThread { ends.server.reset() }
        #expect(await ends.clientLog.end() == .system(ECONNRESET))
        ends.onThread { #expect(!ends.client.isOpen) }
    }

    @Test func theLastBytesComeBeforeAResetThatAWriteFinds() async throws {
        let ends = try Ends()
        await ends.secured()
        ends.onThread {
            ends.server.write([7, 8, 9])
            ends.server.reset()
            ends.client.write([1, 2])
        }
        #expect(await ends.clientLog.end() == .system(ECONNRESET))
        #expect(ends.clientLog.value.bytes == [7, 8, 9])
    }

    @Test(arguments: [true, false]) func aPaceReachesThePeer(isBelowTLS: Bool) async throws {
        let ends = try Ends()
        await ends.secured()
        ends.onThread {
            ends.server.pace = .init(interval: .milliseconds(1), isBelowTLS: isBelowTLS)
            ends.server.write(pattern(40))
            #expect(ends.server.queued > (isBelowTLS ? 40 : 38))
            ends.server.finish(within: .seconds(40))
        }
        #expect(await ends.clientLog.end() == nil)
        #expect(ends.clientLog.value.bytes == pattern(40))
    }

    // MARK: A peer that breaks off

    /// A stream whose peer is a plain socket.
    private func pair() throws -> StreamPair {
        let pair = try StreamPair(isStarted: false)
        let context = try TLSClientContext(roots: .system, protocols: [])
        try NetworkThread.test.sync {
            pair.stream.secure(try TLSSession(client: context, serverName: "localhost"))
            pair.stream.start()
        }
        return pair
    }

    @Test func anEndDuringTheHandshakeIsAnError() async throws {
        let pair = try pair()
        // The client's first record is a handshake.
        #expect(pair.peer.receive(1) == [22])
        pair.peer.close()
        let error = await pair.log.end()
        #expect(error == .ended || error == .tls(TLSError(.endOfHandshake)) || error == .system(ECONNRESET))
    }

    @Test func somethingElseThanTLSIsAnError() async throws {
        let pair = try pair()
        pair.peer.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        guard case .tls(let error)? = await pair.log.end() else {
            Issue.record("no error of TLS")
            return
        }
        #expect(error.code == .notTLS)
    }
}
