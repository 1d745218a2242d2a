import Dispatch
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// A service that sends messages without end cannot grow memory or flood the bus, and NULL does not wait for the
    /// backlog.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct ChattyServiceTests {
        private static func tick(_ seconds: Int, padding: Int = 0) -> [UInt8] {
            let pad = String(repeating: "x", count: padding)
            return StallingProxy.frame(
                [UInt8](#"{"type":"generation_tick","seconds":\#(seconds),"pad":"\#(pad)"}"#.utf8))
        }
        /// Few large messages: more than 2,000 in 10 s end the connection.
        private static let size = 60_000
        /// A LiveKit SignalResponse that holds only an unknown field of `size` bytes.
        private static let roomFrame = StallingProxy.frame(
            [0xc2, 0x3e, 0xe0, 0xd4, 0x03] + [UInt8](repeating: 0x78, count: size), isText: false)
        /// 32 MiB of messages; the socket buffers hold some of it.
        private static let flood = 560

        private func run(_ body: (TransformPipeline, StallingProxy) throws -> Void) throws {
            try StandIn.run { standIn in
                try StallingProxy.with(to: standIn, frames: .max) { proxy in
                    try TransformPipeline.run(
                        try .init("base-url=\(proxy.url) api-key=x \(TransformPipeline.custom) prompt=noir")
                    ) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(2))
                        try body(pipeline, proxy)
                    }
                }
                standIn.expectGoodConduct()
            }
        }

        /// Blocks the session's queue in the first `generation-seconds` notification until it is released.
        private final class Holder: Sendable {
            let isHeld = Watched(false)
            let isReleased = Watched(false)
            let count = Watched(0)

            init(_ transform: Element) {
                transform.connect("notify::generation-seconds") { [isHeld, isReleased, count] _ in
                    count.change { $0 += 1 }
                    isHeld.change { $0 = true }
                    _ = isReleased.wait { $0 }
                    return nil
                }
            }

            func release() { isReleased.change { $0 = true } }
        }

        /// Expects back-pressure: the element stops reading from the socket while a handler blocks.
        /// - Parameter connection: 0 is the control channel, 1 the room.
        private func expectHeldBack(_ frame: [UInt8], connection: Int) throws {
            try run { pipeline, proxy in
                let holder = Holder(pipeline.transform)
                defer { holder.release() }
                #expect(proxy.inject(Self.tick(7), times: 1) == 1)
                #expect(holder.isHeld.wait { $0 }, "no tick arrives")
                let taken = proxy.inject(frame, times: Self.flood, connection: connection)
                #expect(taken < Self.flood * 3 / 4, "\(taken) messages were taken while none was handled")
                holder.release()
                // The reader has resumed: the last message arrives and the session continues.
                #expect(eventually { proxy.inject(frame, times: 1, connection: connection) == 1 })
                // Repeated, because a tick of the stand-in may follow at once.
                let hasArrived = eventually {
                    _ = proxy.inject(Self.tick(424_242), times: 1)
                    return pipeline.transform.value("generation-seconds")?.double == 424_242
                }
                #expect(hasArrived, "the last tick does not arrive")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func theControlChannelIsHeldBack() throws {
            try expectHeldBack(Self.tick(7, padding: Self.size), connection: 0)
        }

        @Test(.enabled(if: MediaWay.current.isRoom, "only rooms have it")) func aRoomIsHeldBack() throws {
            try expectHeldBack(Self.roomFrame, connection: 1)
        }

        @Test func nullDoesNotWaitForTheBacklog() throws {
            try run { pipeline, proxy in
                let holder = Holder(pipeline.transform)
                defer { holder.release() }
                #expect(proxy.inject(Self.tick(1), times: 1) == 1)
                #expect(holder.isHeld.wait { $0 }, "no tick arrives")
                for second in 2..<Self.flood where proxy.inject(Self.tick(second, padding: Self.size), times: 1) == 0 {
                    break
                }
                let isDown = Watched(false)
                DispatchQueue.global().async { [pipeline = pipeline.pipeline] in
                    pipeline.setState(.null)
                    isDown.change { $0 = true }
                }
                #expect(eventually { pipeline.transform.state() < .playing }, "NULL does not begin")
                holder.release()
                #expect(isDown.wait { $0 }, "NULL waits")
                let handled = holder.count.value
                #expect(handled <= 100, "\(handled) messages were handled after NULL")
            }
        }

        @Test func messagesOnTheBusAreLimitedAndTheLatestArrives() throws {
            try run { pipeline, proxy in
                let posted = Watched(0)
                pipeline.bus.onMessage { if $0.structure?.name == "decart-state" { posted.change { $0 += 1 } } }
                var count = 0
                let time = duration {
                    for second in 1...Verification.count(1_800, gate: 1_000) {
                        _ = proxy.inject(Self.tick(second), times: 1)
                    }
                    _ = proxy.inject(Self.tick(424_242), times: 1)
                    let hasArrived = eventually {
                        pipeline.transform.value("generation-seconds")?.double == 424_242
                    }
                    #expect(hasArrived, "the last tick does not arrive")
                    count = posted.value
                }
                // A burst of fifty, then twenty a second.
                let budget = 60 + Int((time / .seconds(1)) * 20)
                #expect(count <= budget, "\(count) messages in \(time)")
            }
        }
    }
}
