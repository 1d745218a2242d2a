import Dispatch
import Synchronization
import TestSupport
import Testing

import EventLoopThreads

@Suite(.timeLimit(.minutes(1)))
struct HostLookupTests {
    private typealias Results = EventLog<Result<[SocketAddress], LookupFailure>>

    @Test(arguments: ["127.0.0.1", "::1", "192.0.2.7"]) func aLiteralIsItsOwnResult(text: String) throws {
        let results = Results()
        HostLookup.resolve(text) { results.append($0) }
        // During the call.
        let address = try #require(SocketAddress(ip: text, port: 0))
        #expect(results.elements == [.success([address])])
    }

    @Test func theSystemsNamesAreFound() async throws {
        let results = Results()
        for _ in 0..<100 { HostLookup.resolve("localhost") { results.append($0) } }
        #expect(await results.reaches(count: 100))
        for result in results.elements {
            let addresses = try result.get()
            #expect(addresses.contains { $0.ip == "127.0.0.1" || $0.ip == "::1" })
            #expect(addresses.allSatisfy { $0.port == 0 } && Set(addresses).count == addresses.count)
        }
    }

    /// RFC 6761: the first never resolves; the local resolver may also be unreachable.
    @Test(arguments: ["nowhere.invalid", "", "a..b", String(repeating: "a", count: 300), "[::1]"])
    func unknownNamesFail(name: String) async throws {
        let results = Results()
        HostLookup.resolve(name) { results.append($0) }
        #expect(await results.reaches(count: 1))
        #expect([.failure(.unknownHost), .failure(.noAnswer)].contains(results.elements.first))
    }

    @Test func nothingIsLookedUpBeforeANUL() {
        let results = Results()
        HostLookup.resolve("localhost\u{0}.example") { results.append($0) }
        #expect(results.elements == [.failure(.unknownHost)])
    }

    // MARK: Threads

    /// Lookups that end when the test lets them.
    private final class NameServer: Sendable {
        let asked = EventLog<String>()
        private let gate = DispatchSemaphore(value: 0)

        func lookups(maximumThreads: Int) -> SharedLookups {
            SharedLookups(maximumThreads: maximumThreads) { [self] name in
                asked.append(name)
                gate.wait()
                return SocketAddress(ip: "192.0.2.1", port: 0).map { .success([$0]) } ?? .failure(.unknownHost)
            }
        }

        func answer(_ count: Int) { for _ in 0..<count { gate.signal() } }
    }

    @Test func callersOfOneNameShareALookup() async throws {
        let server = NameServer()
        let lookups = server.lookups(maximumThreads: 1)
        let results = Results()
        for _ in 0..<50 { lookups.start("one") { results.append($0) } }
        #expect(await server.asked.reaches(count: 1))
        #expect(results.elements.isEmpty)
        server.answer(1)
        #expect(await results.reaches(count: 50))
        #expect(server.asked.elements == ["one"])
        // A later caller gets a new answer.
        server.answer(1)
        lookups.start("one") { results.append($0) }
        #expect(await results.reaches(count: 51))
        #expect(server.asked.elements == ["one", "one"])
    }

    @Test func deadNamesTakeALimitedNumberOfThreads() async throws {
        let server = NameServer()
        let lookups = server.lookups(maximumThreads: 2)
        let (results, refused) = (Results(), Results())
        for name in ["one", "two", "one", "two"] { lookups.start(name) { results.append($0) } }
        #expect(await server.asked.reaches(count: 2))
        lookups.start("three") { refused.append($0) }
        #expect(refused.elements == [.failure(.noThread)])
        server.answer(2)
        #expect(await results.reaches(count: 4))
        server.answer(1)
        lookups.start("three") { results.append($0) }
        #expect(await results.reaches(count: 5))
    }
}
