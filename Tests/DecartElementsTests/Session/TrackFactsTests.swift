import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Name, source and SID of the published track, as the service and `stats` report them.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct TrackFactsTests {
        /// Tracks that the stand-in recorded: `source name sid` in a room, `stream track` in an offer.
        private func tracks(_ properties: String, name: String? = nil) throws -> (tracks: [String], sid: String?) {
            try StandIn.run { standIn in
                var sid: String?
                try TransformPipeline.run(try .init(standIn, properties)) { pipeline in
                    if let name { pipeline.transform.set("track-name", GValueBox(name)) }
                    #expect(pipeline.transform.string("track-name") == name)
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                    sid = pipeline.stats?.string("track-sid")
                    #expect(pipeline.stats?.string("track-state") == "published")
                }
                standIn.expectGoodConduct()
                return (standIn.sessions.first?.tracks ?? [], sid)
            }
        }

        @Test(arguments: [
            ("", "camera", "camera camera "), ("track-source=screen", "screen", "screenShare screen_share "),
        ])
        func withoutANameItIsCalledByItsSource(properties: String, source: String, words: String) throws {
            let (tracks, sid) = try tracks(properties)
            #expect(tracks.count == 1)
            if MediaWay.current.isRoom {
                #expect(tracks.first == words + (sid ?? "no sid"))
                #expect(sid?.hasPrefix("TR_") == true)
            } else {
                #expect(sid == nil && tracks.first?.isEmpty == false)
            }
        }

        @Test(
            arguments: Verification.cases(
                [
                    ("größe\r\na=x:y", "gr--e--a-x-y"),
                    (String(repeating: "x", count: 500), String(repeating: "x", count: 64)),
                    ("My desk: \"left\"", "My-desk---left-"), ("desk", "desk"),
                ], gate: 2))
        func theNameIsTold(name: String, token: String) throws {
            let (tracks, sid) = try tracks("track-source=screen", name: name)
            if MediaWay.current.isRoom {
                #expect(tracks == ["screenShare \(name.prefix(128)) \(sid ?? "no sid")"])
            } else {
                #expect(tracks == ["\(token) \(token)"])
            }
        }

        @Test func whatIsSentIsInTheStatistics() throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, "track-source=screen")) { pipeline in
                    func stat(_ name: String) -> Int { pipeline.count(name) }
                    #expect(pipeline.stats?.string("track-state") == "none" && stat("last-sent-time") == -1)
                    pipeline.play()
                    #expect(pipeline.waitForFrames(3))
                    #expect(pipeline.stats?.string("track-name") == "screen_share")
                    #expect(pipeline.stats?.string("track-source") == "screen")
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
                    pipeline.pipeline.setState(.ready)
                    #expect(pipeline.stats?.string("track-state") == "none")
                    #expect(pipeline.stats?.string("track-sid") == nil)
                }
            }
        }
    }
}
