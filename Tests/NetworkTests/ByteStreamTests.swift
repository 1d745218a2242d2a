import EventLoopThreads
import Glibc
import TestSupport
import Testing

import Network

/// Streams against sockets of the system.
@Suite(.timeLimit(.minutes(2)))
struct ByteStreamTests {
    // MARK: Connecting

    @Test func connects() async throws {
        let listener = try LoopbackSocket(stream: true)
        let (descriptor, _) = LoopbackSocket.connect(to: listener.port, isBlocking: false)
        let log = StreamLog()
        let stream = ByteStream(taking: descriptor, isConnected: false, on: .test)
        NetworkThread.test.sync {
            log.follow(stream)
            // Waits for the connection.
            stream.write([1, 2])
            stream.start()
        }
        let peer = PlainPeer(acceptedBy: listener)
        #expect(peer.receive(2) == [1, 2])
        #expect(log.value.isConnected)
        NetworkThread.test.sync {
            #expect(stream.remoteAddress?.port == Int(listener.port))
            #expect(stream.localAddress?.ip == "127.0.0.1")
            stream.close()
        }
    }

    @Test func aRefusedConnectionEnds() async throws {
        let taken = try LoopbackSocket(stream: true, backlog: nil)
        let (descriptor, _) = LoopbackSocket.connect(to: taken.port, isBlocking: false)
        let log = StreamLog()
        let stream = ByteStream(taking: descriptor, isConnected: false, on: .test)
        NetworkThread.test.sync {
            log.follow(stream)
            stream.start()
        }
        #expect(await log.end() == .system(ECONNREFUSED))
        #expect(!log.value.isConnected)
    }

    /// A stream that nobody has started closes its socket.
    @Test func anUnusedStreamCloses() throws {
        let listener = try LoopbackSocket(stream: true)
        do {
            let (descriptor, _) = LoopbackSocket.connect(to: listener.port)
            _ = ByteStream(taking: descriptor, isConnected: true, on: .test)
        }
        #expect(PlainPeer(acceptedBy: listener).receiveAll().end == .inOrder)
    }

    // MARK: Both directions

    @Test func muchPassesBothWaysAtTheSameTime() async throws {
        let pair = try StreamPair()
        let peer = pair.peer
        let bytes = pattern(many)
        let received = Watched<[UInt8]?>(nil)
        detachThread { peer.send(bytes) }
        detachThread {
            let all = peer.receive(bytes.count)
            received.change { $0 = all }
        }
        pair.onThread { stream in
            stream.write(bytes)
            #expect(!stream.isWritable && stream.queued > stream.marks.high)
        }
        await pair.log.wait("the peer's bytes") { $0.bytes.count >= bytes.count }
        #expect(pair.log.value.bytes == bytes)
        #expect(received.wait { $0 != nil })
        #expect(received.value == bytes)
        await pair.log.wait("the queue to empty") { $0.writable == 1 }
        #expect(pair.onThread { $0.isWritable && $0.queued == 0 })
        pair.onThread { $0.close() }
    }

    /// A writer that stops at the high mark and goes on at the low one keeps the queue short, and is called once for each.
    @Test func writableComesAtTheLowMark() async throws {
        let pair = try StreamPair()
        let bytes = pattern(many)
        let position = Watched(0)
        @Sendable func write(_ stream: ByteStream) {
            while stream.isWritable {
                let start = position.value
                guard start < bytes.count else { return stream.finish(within: .seconds(40)) }
                position.change { $0 += 64 << 10 }
                stream.write(bytes[start..<min(bytes.count, start + 64 << 10)])
                #expect(stream.queued <= stream.marks.high + 64 << 10)
            }
        }
        pair.onThread { stream in
            stream.marks = (low: 100, high: 1000)
            stream.onEvent = { [unowned stream] event in
                guard case .writable = event else { return }
                #expect(stream.queued <= 100)
                write(stream)
            }
            write(stream)
            #expect(!stream.isWritable)
        }
        let (received, end) = pair.peer.receiveAll()
        #expect(received == bytes && end == .inOrder)
        #expect(position.value >= bytes.count)
    }

    @Test func completionsComeInOrderAndMayWrite() async throws {
        let pair = try StreamPair()
        let order = EventLog<Int>()
        pair.onThread { stream in
            for number in 0..<3 {
                stream.write([UInt8(number)]) {
                    order.append(number)
                    if number == 1 { stream.write([9]) { order.append(9) } }
                }
            }
        }
        #expect(pair.peer.receive(4) == [0, 1, 9, 2])
        #expect(order.elements == [0, 1, 9, 2])
        pair.onThread { $0.close() }
    }

    /// Bytes that cannot leave any more count as handled.
    @Test(arguments: [0, 1, 2]) func completionsComeAtTheEnd(way: Int) async throws {
        let pair = try StreamPair()
        let order = EventLog<Int>()
        pair.onThread { stream in
            stream.write(pattern(many)) { order.append(1) }
            stream.write([0]) { order.append(2) }
            #expect(order.elements.isEmpty)
            switch way {
            case 0: stream.close()
            case 1: stream.reset()
            default: pair.peer.reset()
            }
        }
        #expect(await order.reaches(count: 2))
        pair.onThread { $0.write([0]) { order.append(3) } }
        #expect(order.elements == [1, 2, 3])
    }

    // MARK: The peer's end

    @Test func theEndComesAfterTheBytes() async throws {
        let pair = try StreamPair()
        let bytes = pattern(many)
        #expect(pair.peer.send(bytes))
        pair.peer.finish()
        #expect(await pair.log.end() == nil)
        #expect(pair.log.value.bytes == bytes)
        #expect(!pair.onThread { $0.isOpen })
    }

    @Test func aResetIsAnError() async throws {
        let pair = try StreamPair()
        pair.peer.reset()
        #expect(await pair.log.end() == .system(ECONNRESET))
    }

    /// The reset shows when something is sent, and not by the poller: the owner looks at the stream while it ends.
    @Test func aResetWhileSendingIsAnError() async throws {
        let pair = try StreamPair()
        let queued = Watched<Int?>(nil)
        pair.onThread { stream in
            stream.onEvent = { [unowned stream] event in
                guard case .ended(.system?) = event else { return }
                queued.change { $0 = stream.queued }
                stream.write([3])
                stream.close()
            }
            pair.peer.reset()
            stream.write([1, 2])
        }
        #expect(queued.wait { $0 != nil })
        #expect(!pair.onThread { $0.isOpen })
    }

    @Test func theLastBytesComeBeforeAResetThatAWriteFinds() async throws {
        let pair = try StreamPair()
        pair.onThread { stream in
            #expect(pair.peer.send([7, 8, 9]))
            pair.peer.reset()
            stream.write([1, 2])
        }
        #expect(await pair.log.end() == .system(ECONNRESET))
        #expect(pair.log.value.bytes == [7, 8, 9])
    }

    // MARK: Paused reading

    @Test func pausedBytesWaitAtThePeer() async throws {
        let pair = try StreamPair()
        pair.onThread { $0.setReading(false) }
        let sent = pair.peer.fill()
        #expect(sent.count > 10_000)
        pair.onThread { _ in }
        #expect(pair.log.value.bytes.isEmpty)
        pair.onThread { $0.setReading(true) }
        await pair.log.wait("what was sent") { $0.bytes.count == sent.count }
        #expect(pair.log.value.bytes == sent)
        pair.onThread { $0.close() }
    }

    /// The owner pauses with each piece that it gets.
    @Test func aPauseStopsAtOnce() async throws {
        let pair = try StreamPair(isStarted: false)
        let bytes = pattern(many)
        let pieces = EventLog<Int>()
        pair.onThread { stream in
            pair.log.follow(stream) { [unowned stream] in
                stream.setReading(false)
                pieces.append(1)
                stream.thread.later { [weak stream] in
                    #expect(stream?.isReading == false)
                    stream?.setReading(true)
                }
            }
            stream.start()
        }
        #expect(pair.peer.send(bytes))
        pair.peer.finish()
        #expect(await pair.log.end() == nil)
        #expect(pair.log.value.bytes == bytes)
        #expect(pieces.elements.count >= bytes.count / (16 << 10))
    }

    @Test func anEndDuringAPauseWaitsForTheBytes() async throws {
        let pair = try StreamPair()
        pair.onThread { $0.setReading(false) }
        #expect(pair.peer.send([1, 2, 3]))
        pair.peer.finish()
        for _ in 0..<3 { pair.onThread { _ in } }
        #expect(pair.log.value.bytes.isEmpty && !pair.log.value.isOver)
        pair.onThread { $0.setReading(true) }
        #expect(await pair.log.end() == nil)
        #expect(pair.log.value.bytes == [1, 2, 3])
    }

    @Test func aResetDuringAPauseEndsTheStream() async throws {
        let pair = try StreamPair()
        pair.onThread { $0.setReading(false) }
        pair.peer.reset()
        #expect(await pair.log.end() == .system(ECONNRESET))
    }

    // MARK: Closing

    @Test func closeSendsWhatTheSystemTakes() async throws {
        let pair = try StreamPair()
        pair.onThread { stream in
            stream.write([1, 2, 3])
            stream.close()
            stream.close()
            stream.write([4])
            #expect(!stream.isOpen)
        }
        let (bytes, end) = pair.peer.receiveAll()
        #expect(bytes == [1, 2, 3] && end == .inOrder)
        #expect(!pair.log.value.isOver)
    }

    /// The peer reads late and never stops sending: it gets everything nevertheless, and no reset.
    @Test func finishSendsAllAndDropsWhatComes() async throws {
        weak var stream: ByteStream?
        do {
            let pair = try StreamPair()
            stream = pair.stream
            let bytes = pattern(many)
            pair.onThread { stream in
                stream.write(bytes)
                stream.finish(within: .seconds(40))
                #expect(!stream.isOpen && stream.queued > 0)
            }
            #expect(pair.peer.send(pattern(many)))
            let (received, end) = pair.peer.receiveAll()
            #expect(received == bytes && end == .inOrder)
            #expect(pair.peer.send(pattern(many)))
            #expect(pair.log.value.bytes.isEmpty && !pair.log.value.isOver)
            pair.peer.close()
        }
        // With the peer's end, the stream's own.
        #expect(eventually { stream == nil })
    }

    /// The peer has ended its direction before it reads.
    @Test func finishSendsAllToAPeerThatSendsNoMore() async throws {
        let pair = try StreamPair()
        let bytes = pattern(many)
        pair.onThread { stream in
            stream.write(bytes)
            stream.finish(within: .seconds(40))
        }
        pair.peer.finish()
        for _ in 0..<3 { pair.onThread { _ in } }
        let (received, end) = pair.peer.receiveAll()
        #expect(received == bytes && end == .inOrder)
    }

    @Test func finishHasALimit() async throws {
        weak var stream: ByteStream?
        let peer: PlainPeer
        do {
            let pair = try StreamPair()
            stream = pair.stream
            peer = pair.peer
            pair.onThread { $0.finish(within: .milliseconds(20)) }
        }
        #expect(eventually { stream == nil })
        #expect(peer.receiveAll().end == .inOrder)
    }

    @Test func resetIsSeenByThePeer() async throws {
        let pair = try StreamPair()
        pair.onThread { $0.reset() }
        #expect(pair.peer.receiveAll().end == .error(ECONNRESET))
        #expect(!pair.log.value.isOver)
    }

    /// Each event may be the one with which the owner closes.
    @Test func theOwnerMayCloseInAnyEvent() async throws {
        let listener = try LoopbackSocket(stream: true)
        for name in ["connected", "received", "writable"] {
            let (descriptor, _) = LoopbackSocket.connect(to: listener.port, isBlocking: false)
            let stream = ByteStream(taking: descriptor, isConnected: false, on: .test)
            NetworkThread.test.sync {
                stream.onEvent = { [unowned stream] event in
                    switch (event, name) {
                    case (.connected, "connected"), (.received, "received"), (.writable, "writable"): stream.close()
                    case (.connected, "writable"): stream.write(pattern(many))
                    default: break
                    }
                }
                stream.start()
            }
            let peer = PlainPeer(acceptedBy: listener)
            peer.send([1])
            if name == "received" {
                #expect(peer.receiveAll().bytes.isEmpty)
            } else {
                _ = peer.receiveAll()
            }
            #expect(eventually { !NetworkThread.test.sync { stream.isOpen } })
        }
    }

    // MARK: Pace

    @Test func aPaceSendsSingleBytes() async throws {
        let pair = try StreamPair()
        pair.onThread { stream in
            stream.pace = .init(interval: .milliseconds(1), isBelowTLS: true)
            stream.write(pattern(50))
            #expect(stream.queued == 49)
            stream.finish(within: .seconds(40))
            #expect(stream.queued == 49)
        }
        let (bytes, end) = pair.peer.receiveAll()
        #expect(bytes == pattern(50) && end == .inOrder)
    }
}
