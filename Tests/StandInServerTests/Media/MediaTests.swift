import DecartProtocol
import Dispatch
import RTP
import StandInServer
import TestSupport
import Testing
import WebRTCTransport

/// Real sessions over loopback: WebSocket, ICE, DTLS, SRTP, codecs and looks.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct MediaTests {
    private func prompt(_ text: String) -> ClientMessage { .prompt(PromptMessage(text: text, enhance: false)) }

    /// Mean distance of the chroma planes from grey, in code values.
    private func colourfulness(_ planes: [[UInt8]]) -> Double {
        planes.count == 3 ? difference([planes[1]], [[UInt8](repeating: 128, count: planes[1].count)]) : -1
    }

    @Test(arguments: VideoCodec.available)
    func framesComeBackTransformedAndFollowThePrompt(codec: VideoCodec) throws {
        try withMedia { server, port in
            let peer = try MediaPeer(server: server, port: port, codec: codec)
            defer { peer.stop() }
            try peer.setState(prompt("film noir"))
            try peer.negotiate()
            #expect(peer.waitForFrame { colourfulness($0) < 2 })
            #expect(peer.waitForFrames(5))
            try peer.setState(.setImage(.passthrough))
            #expect(peer.waitForFrame { colourfulness($0) > 20 })
            try peer.setState(prompt("noir again"))
            #expect(peer.waitForFrame { colourfulness($0) < 2 })
            try peer.pump { $0 == .generationTick(seconds: 1) }
            let record = try #require(server.sessions.first)
            #expect(record.isGenerating)
            #expect(record.frames.painted > 5)
            #expect(record.frames.raw == 0)
            #expect(!record.offeredBeforeState)
        }
    }

    /// Requests wait while a pipeline changes its state, and a client may send any number.
    @Test func requestsThatDoNotFitEndTheMedia() {
        let events = Watched<[MediaSessionEvent]>([])
        let media = PipelineMedia(role: "test", options: MediaOptions(), room: nil) { event in
            events.change { $0.append(event) }
        }
        let (blocks, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        media.work("") {
            blocks.signal()
            goesOn.wait()
        }
        blocks.wait()
        for _ in 0..<PipelineMedia.maximumWaiting { media.perform(.addCandidate(nil)) }
        media.perform(.requestKeyframe)
        goesOn.signal()
        #expect(events.wait { !$0.isEmpty })
        let ended = DispatchSemaphore(value: 0)
        media.stop { ended.signal() }
        ended.wait()
        #expect(events.value == [.failed("the client sends more than its media can take")])
    }

    @Test func anOfferBeforeAnyStateGetsTheRawVideoBack() throws {
        try withMedia { server, port in
            let peer = try MediaPeer(server: server, port: port)
            defer { peer.stop() }
            try peer.negotiate()
            #expect(peer.waitForFrame { colourfulness($0) > 20 })
            let record = try #require(server.sessions.first)
            #expect(record.offeredBeforeState)
            #expect(record.frames.raw > 0)
        }
    }

    @Test(arguments: ["", "v=0\r\n", "nonsense"])
    func anOfferThatCannotBeTakenIsAnErrorAndTheSessionLives(sdp: String) throws {
        try withMedia { server, port in
            let client = try TestClient(port: port, target: TestServer.target)
            _ = try client.expectGreeting()
            for _ in 0..<3 {
                try client.send(.offer(sdp: sdp))
                guard case .message(.error(let reason, _, _)) = try client.next() else { throw TestClient.TimedOut() }
                #expect(!reason.isEmpty)
            }
            try client.send(prompt("lego"))
            #expect(try client.next() == .message(.promptAck(PromptAck(prompt: "lego", success: true))))
            client.close()
        }
    }

    @Test func aPeerThatClosesItsConnectionEndsTheGeneration() throws {
        try withMedia { server, port in
            let peer = try MediaPeer(server: server, port: port)
            defer { peer.stop() }
            try peer.setState(prompt("lego"))
            try peer.negotiate()
            #expect(peer.waitForFrames(3))
            peer.connection.close()
            try peer.pump { if case .generationEnded = $0 { true } else { false } }
            #expect(server.sessions.first?.mediaFailure != nil)
            #expect(server.sessions.first?.isOpen == true)
        }
    }
}
