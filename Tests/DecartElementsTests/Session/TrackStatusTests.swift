import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The published track, as the service and `stats` report it.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct TrackStatusTests {
        /// As LiveKit's own clients call a camera's track.
        @Test(.enabled(if: MediaWay.current.isRoom, "only rooms have it")) func itIsCalledACamera() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                let sid = pipeline.stats?.string("track-sid") ?? "no sid"
                #expect(sid.hasPrefix("TR_") && standIn.sessions.first?.tracks == ["camera camera \(sid)"])
                #expect(pipeline.stats?.string("track-state") == "published")
            }
        }

        /// The first verdict comes soon and with its figures; one on a session that has ended is none.
        @Test(.indifferentToTransport) func theVerdictOnTheQualityEndsWithTheSession() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, standIn in
                func message() -> Structure? {
                    pipeline.waitForMessage { $0.structure?.name == "decart-quality" }?.structure
                }
                func verdict() -> String? { message()?.string("quality") }
                pipeline.play()
                let attempt = pipeline.waitForMessage { $0.structure?.name == "decart-attempt" }?.structure
                #expect(attempt?["success"]?.bool == true && attempt?.string("error-code") == nil)
                #expect(attempt?.string("transport") == MediaWay.current.usedTransport.rawValue)
                for name in ["total-time", "channel-time", "open-time", "upgrade-time", "media-time"] {
                    #expect(attempt?.int(name) ?? -1 > 0, "\(name)")
                }
                let connectedAt = ContinuousClock.now
                let early = try #require(message())
                measure("first verdict", ContinuousClock.now - connectedAt, atMost: .seconds(2))
                #expect(early["warming-up"]?.bool == true)
                #expect(early.int("round-trip-time") ?? 0 != 0)
                let first = try #require(early.string("quality"))
                #expect(first != "unknown" && pipeline.transform.string("connection-quality") == first)
                standIn.server.dropAll()
                var last: String? = first
                while let next = last, next != "unknown" { last = verdict() }
                #expect(last == "unknown" && pipeline.transform.string("connection-quality") == "unknown")
            }
        }

        @Test func whatIsSentIsInTheStatistics() throws {
            try TransformPipeline.run(with: { try .init($0) }) { pipeline, _ in
                func stat(_ name: String) -> Int { pipeline.count(name) }
                #expect(pipeline.stats?.string("track-state") == "none" && stat("last-sent-time") == -1)
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                #expect(
                    stat("track-width") == TransformPipeline.width
                        && stat("track-height") == TransformPipeline.height)
                #expect(
                    eventually { (1_000...20_000_000).contains(stat("track-bitrate")) }, "\(stat("track-bitrate"))")
                for name in ["last-sent-time", "last-received-time"] {
                    let before = stat(name)
                    let now = Int(clamping: pipeline.transform.currentRunningTime ?? 0)
                    #expect(before >= 0 && before <= now, "\(name): \(before) at \(now)")
                    measure("age of \(name)", .nanoseconds(now - before), atMost: .seconds(2))
                    #expect(eventually { stat(name) > before })
                }
                // Nothing changes in PAUSED, once the frames in flight are sent.
                pipeline.pipeline.setState(.paused)
                let isStill = eventually {
                    let last = stat("last-sent-time")
                    _ = pipeline.collect(milliseconds: 300)
                    return stat("last-sent-time") == last
                }
                #expect(isStill)
                let encoded = stat("frames-encoded")
                pipeline.pipeline.setState(.ready)
                #expect(stat("frames-encoded") == encoded && encoded > 0, "the session's end changes no counter")
                #expect(pipeline.stats?.string("track-state") == "none")
                #expect(pipeline.stats?.string("track-sid") == nil)
            }
        }
    }
}
