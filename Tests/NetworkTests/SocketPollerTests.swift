import Glibc
import Testing

import EventLoopThreads

@Suite struct SocketPollerTests {
    /// Two connected sockets, which are closed at the end.
    private final class Pair {
        let near: CInt
        var far: CInt

        init() throws {
            var pair: [CInt] = [-1, -1]
            let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
            try #require(socketpair(AF_UNIX, CInt(kind), 0, &pair) == 0)
            (near, far) = (pair[0], pair[1])
        }

        deinit {
            close(near)
            hangUp()
        }

        func hangUp() {
            if far >= 0 { close(far) }
            far = -1
        }
    }

    /// Calls the handlers of what is ready, as the loop does.
    private func serve(_ poller: inout SocketPoller) {
        for (key, readiness) in poller.collect() { poller.handler(key)?(readiness) }
    }

    @Test func aSocketIsServedForWhatItAwaits() throws {
        let pair = try Pair()
        var poller = SocketPoller()
        #expect(poller.collect().isEmpty)
        var seen: [SocketReadiness] = []
        func watch(_ interest: SocketReadiness) {
            #expect(poller.watch(pair.near, for: interest) { seen.append($0) } == 0)
        }
        watch(.readable)
        serve(&poller)
        #expect(seen.isEmpty)
        write(pair.far, "x", 1)
        serve(&poller)
        #expect(seen == [.readable])
        watch([.readable, .writable])
        serve(&poller)
        #expect(seen.last == [.readable, .writable])
        watch([])
        serve(&poller)
        #expect(seen.count == 2)
        // Reported although nothing is awaited.
        pair.hangUp()
        serve(&poller)
        #expect(seen.last == .ended)
        watch(.readable)
        serve(&poller)
        #expect(seen.last == [.readable, .ended])
        poller.remove(pair.near)
        poller.remove(pair.near)
        serve(&poller)
        #expect(seen.count == 4)
        close(poller.instance)
    }

    /// A handler removes another socket that is served later, and a new one gets its number.
    @Test func aRemovedSocketIsNotServed() throws {
        var poller = SocketPoller()
        let pair = try Pair()
        var seen: [String] = []
        #expect(poller.watch(pair.near, for: .writable) { _ in seen.append("old") } == 0)
        let ready = poller.collect()
        #expect(ready.count == 1)
        let key = try #require(ready.first?.key)
        poller.remove(pair.near)
        #expect(poller.handler(key) == nil)
        #expect(poller.watch(pair.near, for: .writable) { _ in seen.append("new") } == 0)
        #expect(poller.handler(key) == nil)
        serve(&poller)
        #expect(seen == ["new"])
        close(poller.instance)
    }

    @Test func manySocketsAreServed() throws {
        var poller = SocketPoller()
        let pairs = try (0..<150).map { _ in try Pair() }
        var seen: Set<CInt> = []
        for pair in pairs {
            #expect(poller.watch(pair.near, for: .writable) { _ in seen.insert(pair.near) } == 0)
        }
        // Those that are served go to the end of the kernel's list.
        for _ in 0..<3 { serve(&poller) }
        #expect(seen == Set(pairs.map(\.near)))
        close(poller.instance)
    }

    @Test func aDescriptorThatIsNoneIsAnError() {
        var poller = SocketPoller()
        #expect(poller.watch(-1, for: .readable) { _ in } == EBADF)
        #expect(poller.collect().isEmpty)
        close(poller.instance)
    }
}
