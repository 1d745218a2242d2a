import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Tests our transport against independent implementations.
extension Transport {
    @Suite(.enabled(if: PythonPeer.isAvailable, PythonPeer.reason), .timeLimit(.minutes(2)))
    struct InteroperabilityTests {
        struct Case: Sendable, CustomTestStringConvertible {
            let referee: Referee
            let codec: VideoCodec
            let peerOffers: Bool
            var testDescription: String {
                "\(referee.rawValue) \(codec.rawValue), \(peerOffers ? "offers" : "answers")"
            }

            /// One of each referee, role and kind of payloader.
            static let few = [
                Case(referee: .aiortc, codec: .vp8, peerOffers: true),
                Case(referee: .webrtcbin, codec: .h264, peerOffers: true),
                Case(referee: .webrtcbin, codec: .vp9, peerOffers: false),
            ]
            static let all = Referee.allCases.flatMap { referee in
                referee.codecs.flatMap { codec in
                    [false, true].map { Case(referee: referee, codec: codec, peerOffers: $0) }
                }
            }
        }

        @Test(arguments: Verification.isOn ? Case.all : Case.few)
        func mediaBothWays(_ wanted: Case) throws {
            let call = try Call(wanted.referee, wanted.codec, peerOffers: wanted.peerOffers)
            defer { call.end() }
            let (ours, theirs) = (call.ours, call.theirs)
            #expect(ours.connection.negotiatedCodec == wanted.codec)
            #expect(ours.waitForFrames(20), "nothing decoded here; \(theirs.seen.value.problems)")
            let seen = theirs.stats(within: .seconds(40)) { ($0.framesDecoded ?? 0) >= 20 }
            #expect((seen?.framesDecoded ?? 0) >= 20, "nothing decoded there; \(theirs.seen.value.problems)")
            #expect(ours.size == (320, 240))
            #expect((seen?.width, seen?.height) == (640, 360))
            let here = try #require(ours.seen.value.colour)
            #expect(here.isNear(.blueish), "\(here)")
            let there = try #require(seen?.meanRGB)
            #expect(Colour(red: there[0], green: there[1], blue: there[2]).isNear(.reddish), "\(there)")

            // A request causes a keyframe, in either direction.
            let sent = ours.seen.value.keyFramesSent
            theirs.say(PeerLine("request-keyframe"))
            #expect(ours.seen.wait(.seconds(20)) { $0.keyFramesSent > sent }, "their request was not answered")
            let (received, asked) = (ours.seen.value.keyFramesReceived, theirs.stats()?.pli ?? 0)
            ours.requestKeyFrame()
            #expect(ours.seen.wait(.seconds(20)) { $0.keyFramesReceived > received }, "our request was not answered")
            let after = theirs.stats(within: .seconds(20)) { ($0.pli ?? 0) > asked }
            #expect((after?.pli ?? 0) > asked)
            #expect(ours.connection.statistics().packetsRefused == 0)
            #expect(theirs.seen.value.problems.isEmpty)
            #expect(theirs.stop() == 0)
        }

        /// aiortc has no transport-cc: it follows our REMB, and sends its own if it receives abs-send-time.
        @Test(arguments: Verification.isOn ? [false, true] : [false])
        func bitrateEstimatesBothWays(peerOffers: Bool) throws {
            let call = try Call(.aiortc, .vp8, peerOffers: peerOffers)
            defer { call.end() }
            let theirs = call.theirs.stats(within: .seconds(40)) { ($0.rembReceived ?? 0) >= 2 }
            #expect((theirs?.rembReceived ?? 0) >= 2)
            #expect((theirs?.rembBitrate ?? 0) > 0 && (theirs?.targetBitrate ?? 0) > 0)
            measure("our REMB", theirs?.rembBitrate ?? 0, atLeast: 500_000, unit: "bit/s")
            measure("target of the peer", theirs?.targetBitrate ?? 0, atLeast: 500_000, unit: "bit/s")
            #expect(eventually(seconds: 40) { call.ours.connection.statistics().remoteBitrateEstimate ?? 0 > 0 })
        }
    }

    /// Audio with an independent implementation.
    @Suite(.enabled(if: PythonPeer.isAvailable, PythonPeer.reason), .timeLimit(.minutes(2)))
    struct InteroperabilityAudioTests {
        @Test(arguments: Verification.isOn ? [false, true] : [true])
        func soundBothWays(peerOffers: Bool) throws {
            let call = try Call(.aiortc, .vp8, peerOffers: peerOffers, audio: .sendrecv, options: ["--tone", "1000"])
            defer { call.end() }
            #expect(call.ours.connection.audioDirection == .sendrecv)
            try call.ours.startAudio(frequency: 440)
            try expectSound(call)
            #expect(call.theirs.stop() == 0)
        }

        /// Audio is added while video flows, removed, and added again.
        @Test func soundComesAndGoes() throws {
            let call = try Call(.aiortc, .vp8, peerOffers: false, options: ["--tone", "1000"])
            defer { call.end() }
            let (ours, theirs) = (call.ours, call.theirs)
            #expect(ours.waitForFrames(10) && ours.connection.audioDirection == nil)
            func renegotiate(_ audio: MediaDirection?) throws {
                ours.connection.setMedia(video: .sendrecv, audio: audio)
                let answer = try #require(
                    theirs.answer(to: ours.connection.createOffer()), "\(theirs.seen.value.problems)")
                try ours.connection.setAnswer(answer)
            }
            try renegotiate(.sendrecv)
            try ours.startAudio(frequency: 440)
            try expectSound(call)
            try renegotiate(nil)
            #expect(ours.connection.audioDirection == .inactive)
            let frames = ours.frames
            #expect(ours.waitForFrames(frames + 20))
            try renegotiate(.sendrecv)
            let received = ours.received.value.buffers
            #expect(ours.received.wait(.seconds(40)) { $0.buffers > received + 20 })
            measure("longest gap", ours.seen.value.longestGap, atMost: .seconds(1))
            #expect(theirs.seen.value.problems.isEmpty, "\(theirs.seen.value.problems)")
        }

        private func expectSound(_ call: Call) throws {
            #expect(call.ours.waitToHear(1000), "nothing heard here; \(call.theirs.seen.value.problems)")
            let there = call.theirs.stats(within: .seconds(40)) { abs(($0.audioPitch ?? 0) - 440) < 60 }
            #expect(abs((there?.audioPitch ?? 0) - 440) < 60, "nothing heard there; \(call.theirs.seen.value.problems)")
            // Video continues alongside.
            #expect(call.ours.waitForFrames(20))
            #expect(
                (call.theirs.stats(within: .seconds(40)) { ($0.framesDecoded ?? 0) >= 20 }?.framesDecoded ?? 0) >= 20)
            #expect(call.ours.connection.statistics().packetsRefused == 0)
        }
    }

    /// One of our peers and one of theirs, connected; each sends its own colour, so that tests can tell them apart.
    final class Call: Sendable {
        let ours: TestPeer
        let theirs: PythonPeer

        init(
            _ referee: Referee, _ codec: VideoCodec, peerOffers: Bool, audio: MediaDirection? = nil,
            options: [String] = [],
            startMedia: Bool = true
        ) throws {
            var configuration = PeerConnectionConfiguration()
            configuration.codec = codec
            configuration.audio = audio
            ours = try TestPeer(configuration)
            theirs = try PythonPeer(
                referee, peerOffers ? "offer" : "answer", codec, ["--size", "320x240"] + options)
            if peerOffers {
                let offer = try #require(theirs.description(), "no offer: \(theirs.seen.value.problems)")
                theirs.say(description: try ours.connection.createAnswer(to: offer), as: "answer")
            } else {
                theirs.say(description: try ours.connection.createOffer(), as: "offer")
                let answer = try #require(theirs.description(), "no answer: \(theirs.seen.value.problems)")
                try ours.connection.setAnswer(answer)
            }
            ours.trickle { [theirs] candidate in
                // The Python peer's agent binds to 127.0.0.1 only.
                if candidate.map({ $0.candidate.contains(" 127.0.0.1 ") }) ?? true { theirs.say(candidate: candidate) }
            }
            theirs.trickle { [weak ours] in ours?.connection.addRemoteCandidate($0) }
            if startMedia {
                try ours.startMedia(width: 640, height: 360, framerate: 20, background: .reddish)
                #expect(ours.waitForConnected(within: .seconds(40)), "\(String(describing: ours.error))")
            }
        }

        func end() {
            ours.stop()
            theirs.stop()
        }
    }
}
