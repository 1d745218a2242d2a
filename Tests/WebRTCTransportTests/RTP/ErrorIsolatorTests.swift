import GStreamerKit
import Synchronization
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct ErrorIsolatorTests {
    private func packet() -> Buffer { ([1, 2, 3] as [UInt8]).withUnsafeBytes(Buffer.init(copying:)) }

    /// A receiver that takes its time, behind a path that loses packets: each loss is an event.
    @Test func whatWaitsForAReceiverIsBounded() throws {
        GStreamerRuntime.initialise()
        let isolator = ErrorIsolator { _, isolator in isolator.hold() }
        let (source, sink) = (Pad(name: "src", direction: .source), Pad(name: "sink", direction: .sink))
        let received = Mutex<(kinds: [Event.Kind], buffers: Int)>(([], 0))
        let keyframes = Mutex(0)
        sink.setChainFunction { _ in
            received.withLock { $0.buffers += 1 }
            return .ok
        }
        sink.setEventFunction { event in
            received.withLock { $0.kinds.append(event.kind) }
            return .handled(true)
        }
        source.setEventFunction { event in
            if event.isForceKeyUnit { keyframes.withLock { $0 += 1 } }
            return .handled(true)
        }
        source.setActive(true)
        sink.setActive(true)
        try isolator.open(to: source)
        try isolator.link(to: sink)
        source.push(.streamStart(id: "a", groupID: 1))
        source.push(.caps(try Caps("application/x-rtp")))
        source.push(.timeSegment())
        let lost = Event.customDownstream(Structure("GstRTPPacketLost"))
        for _ in 0..<20_000 {
            source.push(lost)
            _ = source.push(packet())
        }
        #expect(received.withLock { $0.kinds } == [.streamStart] && keyframes.withLock { $0 } == 0)
        isolator.release()
        _ = source.push(packet())
        let (kinds, buffers) = received.withLock { $0 }
        #expect(kinds.prefix(3) == [.streamStart, .caps, .segment] && buffers > 0)
        #expect(kinds.count + buffers < 4_200, "\(kinds.count) events, \(buffers) buffers")
        #expect(keyframes.withLock { $0 } == 1, "packets were dropped")
        isolator.close()
    }
}
