import DecartProtocol
import DecartSession
import Signalling
import TestSupport
import Testing

@Suite("Channels with fresh keys", .timeLimit(.minutes(1)))
struct TokenFetchingChannelTests {
    /// A channel, its events, and the keys that its inner channels were made with.
    final class Fixture: Sendable {
        let channel: TokenFetchingChannel
        let events = EventQueue<SignallingEvent>()
        private let keys = Observed<[String]>([])

        init(backend: Int, service: Int, refusal: SessionError? = nil) throws {
            var fetching = HTTPConfiguration()
            fetching.limit = .seconds(600)
            let base = try ServiceURL(base: "ws://127.0.0.1:\(service)")
            let model = try DecartModel(named: "lucy-2.5")
            channel = TokenFetchingChannel(
                fetcher: APIKeyFetcher(
                    url: try HTTPURL(backend: "http://127.0.0.1:\(backend)/key"), configuration: fetching),
                makeChannel: { [keys] key, onEvent throws(SessionError) in
                    keys.change { $0.append(key.reveal()) }
                    if let refusal { throw refusal }
                    return WebSocketChannel(url: base.stream(key: key, model: model), onEvent: onEvent)
                },
                onEvent: { [events] in events.record($0) })
        }

        var usedKeys: [String] { keys.value }

        func run(sourceLocation: SourceLocation = #_sourceLocation) async -> [SignallingEvent] {
            // A released channel reports no more events.
            defer { withExtendedLifetime(channel) {} }
            return await events.rest(sourceLocation: sourceLocation)
        }
    }

    private func withServers(
        _ body: [UInt8]? = APIKeyFetcherTests.answer("200 OK", "{\"apiKey\":\"ek_canary_1234\"}"),
        service: Script = Script(), _ test: (_ backend: RawServer, _ service: RawServer) async throws -> Void
    ) async throws {
        try await withServer(.http { _ in body }) { backend in
            try await withServer(service) { service in try await test(backend, service) }
        }
    }

    @Test func theFetchedKeyOpensTheChannel() async throws {
        try await withServers { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port)
            fixture.channel.open(timeout: .seconds(10))
            let events = fixture.events
            #expect(await events.next()?.isOpened == true)
            #expect(fixture.usedKeys == ["ek_canary_1234"])
            #expect(service.requests.first?.contains("api_key=ek_canary_1234") == true)
            #expect(!fixture.channel.redacting("key ek_canary_1234").contains("canary"))
            fixture.channel.send([UInt8]("{}".utf8))
            #expect(await events.next() == .text([UInt8]("{}".utf8)))
            fixture.channel.close()
            guard case .closed = await events.next() else {
                Issue.record("not closed")
                return
            }
            #expect(await events.next() == nil)
            withExtendedLifetime(fixture) {}
        }
    }

    @Test func aRefusedKeyEndsTheAttempt() async throws {
        try await withServers(APIKeyFetcherTests.answer("403 No", "")) { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port)
            fixture.channel.open(timeout: .seconds(10))
            let events = await fixture.run()
            guard case .failed(let error) = events.last, events.count == 1 else {
                Issue.record("\(events)")
                return
            }
            #expect(error.isPermanent && error.httpStatus == 403)
            #expect(service.connections == 0)
        }
    }

    @Test func aChannelThatCannotBeMadeEndsTheAttempt() async throws {
        let refusal = SessionError(.invalidOptions, "no", stage: .configuration, isPermanent: true)
        try await withServers { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port, refusal: refusal)
            fixture.channel.open(timeout: .seconds(10))
            #expect(await fixture.run() == [.failed(refusal)])
        }
    }

    @Test func theTimeOutCoversTheFetch() async throws {
        try await withServers(nil) { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port)
            // The fetcher's own limit is longer than the wait of this test.
            fixture.channel.open(timeout: .milliseconds(200))
            guard case .failed(let error) = await fixture.run().last else {
                Issue.record("no failure")
                return
            }
            #expect(error.code == .connectionTimeout)
            #expect(fixture.usedKeys.isEmpty)
        }
    }

    @Test func closedBeforeItIsOpened() async throws {
        try await withServers { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port)
            fixture.channel.close()
            fixture.channel.open(timeout: .seconds(10))
            fixture.channel.close()
            #expect(await fixture.run() == [.closed(code: nil, reason: "")])
            #expect(backend.connections == 0)
        }
    }

    @Test func closedWhileTheBackendIsSilent() async throws {
        try await withServers(nil) { backend, service in
            let fixture = try Fixture(backend: backend.port, service: service.port)
            fixture.channel.open(timeout: .seconds(10))
            fixture.channel.close()
            #expect(await fixture.run() == [.closed(code: nil, reason: "")])
            #expect(fixture.usedKeys.isEmpty)
        }
    }

    /// Whenever `close` is called, exactly one end is reported, as the last event.
    @Test func closedAtAnyMoment() async throws {
        try await withServers { backend, service in
            for round in 0..<60 where !Task.isCancelled {
                let fixture = try Fixture(backend: backend.port, service: service.port)
                fixture.channel.open(timeout: .seconds(10))
                // Computes instead of sleeping, so that the close falls into fetching, creation or upgrade in turn.
                var sum = 0
                for index in 0..<(round * round * 400) { sum &+= index ^ sum }
                withExtendedLifetime(sum) {}
                fixture.channel.close()
                let events = await fixture.run()
                let ends = events.count { event in
                    switch event {
                    case .closed, .failed: true
                    case .opened, .text, .binary, .silent, .answered: false
                    }
                }
                #expect(ends == 1, "\(events)")
            }
        }
    }

    @Test func lettingGoCancels() async throws {
        try await withServers(nil) { backend, service in
            var fixture: Fixture? = try Fixture(backend: backend.port, service: service.port)
            fixture?.channel.open(timeout: .seconds(10))
            weak var channel = fixture?.channel
            fixture = nil
            #expect(channel == nil)
        }
    }
}
