import DecartProtocol
import GStreamerKit
import ICE
import StandInServer
import Testing
import TestSupport

extension ElementTests {
    /// ICE servers announced by a room, with credentials in LiveKit's format; a direct path exists too.
    @Suite(
        .serialized, .timeLimit(.minutes(2)), .indifferentToTransport,
        .enabled(if: TurnServer.isInstalled, "coturn is not installed"))
    struct RoomTestsRelay {
        private func relayed(_ pipeline: TransformPipeline) -> [Bool?] {
            [pipeline.stats?["relayed"]?.bool, pipeline.stats?["receive-relayed"]?.bool]
        }

        private func runSession(
            _ properties: String = "", ice: RoomICE, isSingle: Bool = true,
            _ body: (TransformPipeline) throws -> Void
        ) throws {
            let raw = try Reference.input()
            let properties = "transport=livekit \(properties)"
            try TransformPipeline.run(
                with: { try .init($0, properties, prompt: "film noir", forbidden: raw) },
                standIn: {
                    ($0.transports, $0.rooms.ice, $0.rooms.servesSingleConnections) = ([.livekit], ice, isSingle)
                }
            ) { pipeline, _ in
                pipeline.play()
                try body(pipeline)
                #expect(pipeline.current.leaks == 0)
            }
        }

        /// TURN over TLS: ICE's own tests have all ways to a relay.
        @Test func aRoomThatForcesTheRelay() throws {
            let turn = try TurnServer(tls: "IP:127.0.0.1", temporaryUser: "us/er+=")
            var ice = RoomICE()
            ice.servers = [try turn.tlsServer(host: "127.0.0.1")]
            for isForced in [false, true] {
                ice.forcesRelay = isForced
                try runSession("ca-file=\(turn.authority)", ice: ice) { pipeline in
                    #expect(pipeline.waitForFrames(3))
                    #expect(eventually { relayed(pipeline) == [isForced, isForced] }, "\(relayed(pipeline))")
                    #expect(pipeline.takeProblems().isEmpty)
                }
            }
        }

        /// The element may force the relay itself, and then uses the room's servers.
        @Test func anElementThatInsistsOnTheRelay() throws {
            let turn = try TurnServer(temporaryUser: "us/er+=")
            var ice = RoomICE()
            ice.servers = [try turn.server("udp")]
            try runSession("ice-transport-policy=relay", ice: ice) { pipeline in
                #expect(pipeline.waitForFrames(3))
                #expect(eventually { relayed(pipeline) == [true, true] }, "\(relayed(pipeline))")
            }
        }

        /// A forced relay that does not exist fails the connection: no other path is tried, and no credential is in the
        /// error.
        @Test func aForcedRelayThatIsNotThere() throws {
            var ice = RoomICE()
            ice.servers = [
                try ICEServer(
                    url: "turn:127.0.0.1:\(try LoopbackSocket.freePort())", username: "canary:1", credential: "canary=")
            ]
            ice.forcesRelay = true
            try runSession("max-retries=0 connection-timeout=2", ice: ice) { pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(pipeline.frames == 0)
                let said = error.text + error.debug + (error.details?.description ?? "")
                #expect(!said.contains("canary"))
            }
        }

        /// A forced relay without any TURN server is an error at once.
        @Test(arguments: [true, false]) func aRelayThatNothingNames(isSingle: Bool) throws {
            try runSession("max-retries=0 ice-transport-policy=relay", ice: RoomICE(), isSingle: isSingle) { pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains("needs a TURN server"), "\(error.text)")
                #expect(pipeline.frames == 0)
            }
        }

        /// With an empty `stun-server`, none is asked, whatever the room names.
        @Test(arguments: [true, false]) func noSTUNServerIsAsked(isSingle: Bool) throws {
            let theirs = try LoopbackSocket()
            var ice = RoomICE()
            ice.servers = [try ICEServer(url: "stun:127.0.0.1:\(theirs.port)")]
            try runSession("stun-server=\"\"", ice: ice, isSingle: isSingle) { pipeline in
                #expect(pipeline.waitForFrames(1))
                #expect(!theirs.hasReceived())
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Only one STUN server is used: `stun-server`, and the room's in its place if that is known before candidates are
        /// gathered.
        @Test(arguments: [true, false]) func oneSTUNServerIsAsked(isSingle: Bool) throws {
            let (ours, theirs) = (try LoopbackSocket(), try LoopbackSocket())
            var ice = RoomICE()
            ice.servers = [try ICEServer(url: "stun:127.0.0.1:\(theirs.port)")]
            try runSession("stun-server=stun://127.0.0.1:\(ours.port)", ice: ice, isSingle: isSingle) { pipeline in
                #expect(pipeline.waitForFrames(1))
                #expect(eventually { (isSingle ? ours : theirs).hasReceived() })
                // The request for one connection, which was refused, had a gathering of its own.
                if isSingle { #expect(!theirs.hasReceived()) }
                #expect(pipeline.takeProblems().isEmpty)
            }
        }
    }
}
