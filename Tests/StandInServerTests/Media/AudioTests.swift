import DecartProtocol
import LiveKitProtocol
import RTP
import StandInServer
import Synchronization
import TestSupport
import Testing
import WebRTCTransport

/// Audio is echoed unchanged over both transports, and may be added after the video.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct AudioTests {
    @Test(arguments: [true, false])
    func directly(fromTheStart: Bool) throws {
        try withMedia { server, port in
            let peer = try MediaPeer(server: server, port: port)
            defer { peer.stop() }
            if fromTheStart { peer.connection.setMedia(video: .sendrecv, audio: .sendrecv) }
            try peer.setState(.prompt(PromptMessage(text: "lego", enhance: false)))
            try peer.negotiate()
            #expect(peer.waitForFrames(3))
            if !fromTheStart {
                #expect(peer.connection.audioDirection == nil)
                try peer.renegotiate(audio: .sendrecv)
            }
            let tone = Tone()
            try tone.listen(to: peer.connection, in: peer.pipeline)
            try tone.send(440, through: peer.connection, in: peer.pipeline)
            #expect(eventually(seconds: 40) { tone.hears(440) })
            // Audio is removed and added again while video continues.
            try peer.renegotiate(audio: nil)
            #expect(peer.connection.audioDirection == .inactive)
            let frames = peer.frameCount
            #expect(peer.waitForFrames(frames + 10))
            try peer.renegotiate(audio: .sendrecv)
            let buffers = tone.buffers
            #expect(eventually(seconds: 40) { tone.buffers > buffers + 20 } && tone.hears(440))
            #expect(server.sessions.first?.isGenerating == true)
        }
    }

    @Test func inARoom() throws {
        try withMedia { server, port in
            try RoomPeer.withVideo(port: port) { peer in
                #expect(
                    try peer.waits { peer.frames.load(ordering: .relaxed) > 5 },
                    "\(peer.progress), the stand-in: \(server.sessions)")
                #expect(peer.subscriber.audioDirection == nil)

                try peer.publish(audio: true)
                var announced: [LiveKitTrackInfo] = []
                try peer.pump {
                    if case .update(let update) = $0 { announced = update.participants.first?.tracks ?? [] }
                    if case .offer = $0 { return true } else { return false }
                }
                #expect(announced.map(\.type) == [.video, .audio] && announced.last?.source == .microphone)
                #expect(try peer.waits { peer.tone.hears(440) })

                try peer.publish(audio: false)
                try peer.pump {
                    if case .update(let update) = $0 { announced = update.participants.first?.tracks ?? [] }
                    if case .offer = $0 { return true } else { return false }
                }
                #expect(announced.map(\.type) == [.video])
                #expect(peer.subscriber.audioDirection == .inactive)
                let images = peer.frames.load(ordering: .relaxed)
                #expect(try peer.waits { peer.frames.load(ordering: .relaxed) > images + 10 })

                try peer.publish(audio: true)
                try peer.waitForOffer()
                let buffers = peer.tone.buffers
                #expect(try peer.waits { peer.tone.buffers > buffers + 20 } && peer.tone.hears(440))
            }
        }
    }
}
