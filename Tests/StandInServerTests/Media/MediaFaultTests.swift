import DecartProtocol
import GStreamerKit
import StandInServer
import Testing
import WebRTCTransport

/// Faults of real media over loopback.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct MediaFaultTests {
    private let lego = ClientMessage.prompt(PromptMessage(text: "film noir", enhance: false))

    private func withPeer(
        _ specs: String, pattern: String = "ball", _ body: (MediaPeer, StandInServer) throws -> Void
    ) throws {
        let faults = try FaultPlan(parsing: specs.split(separator: " ").map(String.init)).faults
        try withMedia({ $0.faults = faults }) { server, port in
            let peer = try MediaPeer(server: server, port: port, pattern: pattern)
            defer { peer.stop() }
            try peer.setState(lego)
            try body(peer, server)
        }
    }

    @Test func framesStop() throws {
        try withPeer("media_silent:at=1.5") { peer, server in
            try peer.negotiate()
            #expect(peer.waitForFrames(5))
            // Frames are still painted but no longer sent.
            #expect(
                server.wait(milliseconds: 20_000) { records in
                    records.first.map { $0.frames.painted >= $0.frames.sent + 20 } ?? false
                })
            // Frames that wait in the encoder may still be sent.
            var isSilent = false
            for _ in 0..<10 where !isSilent {
                let sent = try #require(server.sessions.first?.frames.sent)
                let painted = try #require(server.sessions.first?.frames.painted)
                try #require(server.wait(milliseconds: 20_000) { ($0.first?.frames.painted ?? 0) >= painted + 20 })
                isSilent = server.sessions.first?.frames.sent == sent
            }
            #expect(isSilent)
        }
    }

    @Test func framesFreeze() throws {
        try withPeer("media_freeze:at=0.5", pattern: "snow") { peer, _ in
            try peer.negotiate()
            var last: [[UInt8]] = []
            var lastCount = 0
            // The snow pattern changes with each frame: two consecutive frames that hardly differ are frozen.
            #expect(
                peer.waitForFrame { planes in
                    defer { (last, lastCount) = (planes, peer.frameCount) }
                    return peer.frameCount > lastCount && !last.isEmpty && difference([last[0]], [planes[0]]) < 2
                })
        }
    }

    @Test func framesAreSmaller() throws {
        try withPeer("media_caps_change:at=1.5") { peer, _ in
            try peer.negotiate()
            #expect(peer.waitForFrame { $0.first?.count == 320 * 176 })
            #expect(peer.waitForFrame { $0.first?.count == 160 * 88 })
        }
    }

    @Test func framesAreDamaged() throws {
        // High-rate grey video: colour can only come from damage.
        try withPeer("media_garbage:at=1.5", pattern: "snow") { peer, server in
            try peer.negotiate()
            #expect(peer.waitForFrames(3))
            let isSpoilt = peer.waitForFrame(seconds: 4) { planes in
                planes.count == 3 && planes[1].count { abs(Int($0) - 128) > 8 } > 100
            }
            // Otherwise the decoder must have rejected the frames.
            #expect(
                isSpoilt
                    || server.wait(milliseconds: 20_000) { ($0.first?.frames.sent ?? 0) > peer.frameCount + 20 })
        }
    }

    @Test func packetsHaveAnotherSSRC() throws {
        try withPeer("media_wrong_ssrc") { peer, server in
            try peer.client.send(.offer(sdp: try peer.connection.createOffer()))
            var announced = ""
            try peer.pump { message in
                if case .answer(let sdp) = message { announced = sdp }
                return message == .generationStarted
            }
            #expect(server.wait(milliseconds: 20_000) { ($0.first?.frames.sent ?? 0) > 5 })
            #expect(peer.waitForFrames(1))
            let ssrc = try #require(peer.connection.bin.staticPad("rtp_src")?.currentCaps?.first?.int("ssrc"))
            #expect(announced.contains("a=ssrc:"))
            #expect(!announced.contains("a=ssrc:\(UInt32(truncatingIfNeeded: ssrc)) "))
        }
    }

    /// Also with audio offered alongside, which the stand-in rejects.
    @Test(arguments: [MediaDirection.sendrecv, nil])
    func packetsAreRepeatedAndDeliveredOnce(audio: MediaDirection?) throws {
        try withPeer("media_replay:n=3") { peer, _ in
            peer.connection.setMedia(video: .sendrecv, audio: audio)
            try peer.client.send(.offer(sdp: try peer.connection.createOffer()))
            try peer.pump { if case .answer = $0 { true } else { false } }
            #expect(peer.waitForFrames(10))
            let statistics = peer.connection.statistics(within: .seconds(20))
            #expect(peer.connection.videoDirection == .sendrecv && peer.connection.audioDirection == nil)
            // SRTP accepts one of three copies and rejects two as replays.
            #expect(statistics.packetsReceived >= 10)
            #expect(statistics.packetsRefused > statistics.packetsReceived)
        }
    }

    @Test(arguments: ["dtls_silent", "dtls_flood", "dtls_old_version"])
    func theHandshakeDoesNotComeAbout(spec: String) throws {
        try withPeer(spec) { peer, server in
            try peer.client.send(.offer(sdp: try peer.connection.createOffer()))
            try peer.pump { if case .answer = $0 { true } else { false } }
            #expect(peer.states.waitForICE())
            // The old version causes an alert; with the others the client keeps waiting.
            if spec == "dtls_old_version" { #expect(peer.states.waitForFailure()) }
            peer.client.ping([7])
            _ = try peer.client.next { $0 == .pong([7]) }
            #expect(peer.frameCount == 0)
            #expect(server.sessions.first?.isGenerating == false)
        }
    }
}
