import DecartProtocol
import DecartSession
import Signalling
import TestSupport
import Testing

@Suite("A connection that is made before the URL is known", .timeLimit(.minutes(1)))
struct EarlyConnectionTests {
    private func early(to port: Int, isAwaited: Bool = true) throws -> EarlyConnection {
        let place = ServerPlace(try Client.url(port: port))
        return EarlyConnection(
            to: place, trust: .system, route: NetworkRoute(), refusesLocal: false, isAwaited: isAwaited,
            lifetime: .seconds(3600))
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

    @Test("A channel does not wait for one that is to stand already")
    func unfinished() async throws {
        try await withServer { server in
            let early = try early(to: server.port, isAwaited: false)
            early.open(after: .seconds(3600))
            let client = try Client(port: server.port) { $0.early = early }
            #expect(await client.open().next()?.isOpened == true)
            // It is over.
            early.open()
            client.channel.close()
            #expect(await server.waitForEnd())
            #expect(server.connections == 1)
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

    /// It ends the idle connection in the moment of the request.
    @Test("A channel connects anew if the server has tired of it")
    func tired() async throws {
        let requests = Observed(0)
        let late = [UInt8]("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".utf8)
        let script = Script(respond: { request in
            requests.change { number in
                number += 1
                return number == 1
            } ? late : RawServer.upgrade(request)
        })
        try await withServer(script) { server in
            let early = try early(to: server.port)
            early.open()
            #expect(await server.waitForConnections())
            let client = try Client(port: server.port) { $0.early = early }
            #expect(await client.open().next()?.isOpened == true)
            #expect(await server.waitForEnd())
            #expect(server.connections == 2 && server.requests.count == 2)
            client.channel.close()
        }
    }

    @Test("A channel with other roots connects itself")
    func otherRoots() async throws {
        let certificates = try Certificates()
        let tls = try certificates.server(name: "early", san: "DNS:localhost")
        let file = certificates.path("ca.pem")
        try await withServer(tls: tls) { server in
            for (trust, count) in [(TLSTrust.only(file: file), 1), (.systemAnd(file: file), 3)] {
                let place = ServerPlace(try Client.url(port: server.port, host: "localhost", secure: true))
                let early = EarlyConnection(
                    to: place, trust: .only(file: file), route: NetworkRoute(), refusesLocal: false,
                    lifetime: .seconds(3600))
                early.open()
                let client = try Client(port: server.port, host: "localhost", secure: true) {
                    ($0.trust, $0.early) = (trust, early)
                }
                #expect(await client.open().next()?.isOpened == true)
                #expect(server.connections == count)
                client.channel.close()
            }
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
