import DecartProtocol
import DecartSession
import Signalling
import TestSupport
import Testing

@Suite("A connection that is made before the URL is known", .timeLimit(.minutes(1)))
struct EarlyConnectionTests {
    private func early(to port: Int) throws -> EarlyConnection {
        let place = ServerPlace(try Client.url(port: port))
        return EarlyConnection(
            to: place, trust: .system, route: NetworkRoute(), refusesLocal: false, lifetime: .seconds(3600))
    }

    @Test("A channel to the same server takes it: there is one connection in all")
    func taken() async throws {
        try await withServer { server in
            let early = try early(to: server.port)
            early.open()
            #expect(await server.waitForConnections())
            let client = try Client(port: server.port) { $0.early = early }
            #expect(await client.open().next()?.isOpened == true)
            #expect(server.connections == 1)
            client.channel.close()
        }
    }

    @Test("A channel to another server closes it")
    func another() async throws {
        try await withServer { first in
            try await withServer { second in
                let early = try early(to: first.port)
                early.open()
                #expect(await first.waitForConnections())
                let client = try Client(port: second.port) { $0.early = early }
                #expect(await client.open().next()?.isOpened == true)
                #expect(await first.waitForEnd())
                client.channel.close()
            }
        }
    }

    @Test("A channel connects anew if the server has closed it")
    func lost() async throws {
        try await withServer { server in
            let early = try early(to: server.port)
            early.open()
            #expect(await server.waitForConnections())
            server.cut()
            let client = try Client(port: server.port) { $0.early = early }
            #expect(await client.open().next()?.isOpened == true)
            #expect(server.connections == 2 && server.requests.count == 1)
            client.channel.close()
        }
    }

    @Test("A server that is not there fails the channel as without it")
    func refused() async throws {
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        let early = try early(to: Int(taken.port))
        early.open()
        let client = try Client(port: Int(taken.port)) { $0.early = early }
        #expect(await client.failure()?.message.contains("connection refused") == true)
    }

    @Test("A channel that is closed while it waits ends it")
    func abandoned() async throws {
        try await withServer(Script(respond: { _ in nil })) { server in
            let early = try early(to: server.port)
            let client = try Client(port: server.port) { $0.early = early }
            let events = client.open()
            client.channel.close()
            #expect(await events.next() == .closed(code: nil, reason: ""))
            early.open()
            #expect(await events.next() == nil)
            #expect(server.requests.isEmpty)
        }
    }
}
