import GStreamerKit
import Testing
import WebRTCTransport

/// One answerer, several offers, as a room sends them: data channels alone, then a video beside them.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct RenegotiationTests {
        private let application = SampleOffer.session + SampleOffer.application
        private let withVideo =
            SampleOffer.session + SampleOffer.application
            + SampleOffer.video().replacing("a=sendrecv", with: "a=sendonly")

        private func withAnswerer(
            _ change: (inout PeerConnectionConfiguration) -> Void = { _ in }, _ body: (PeerConnection) throws -> Void
        ) throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            configuration.direction = .recvonly
            configuration.acceptsDataChannels = true
            change(&configuration)
            let connection = try PeerConnection(configuration: configuration) { _ in }
            defer {
                connection.close()
                connection.dismantle()
            }
            try body(connection)
        }

        private func answer(_ connection: PeerConnection, _ offer: String) throws -> SDPDescription {
            try SDPDescription(parsing: connection.createAnswer(to: offer))
        }

        @Test func aVideoIsAddedAndTakenAway() throws {
            try withAnswerer { connection in
                let first = try answer(connection, application)
                #expect(first.media.map(\.port) == [9])
                #expect(first.values("group") == ["BUNDLE 2"])
                #expect(connection.negotiatedCodec == nil)
                let second = try answer(connection, withVideo)
                #expect(second.media.map(\.kind) == ["application", "video"])
                #expect(second.media.map(\.port) == [9, 9])
                #expect(second.values("group") == ["BUNDLE 2 1"])
                #expect(second.media[1].has("recvonly") && second.media[1].value("msid") == nil)
                #expect(connection.negotiatedCodec == .vp8)
                // One transport: its parameters stay.
                for name in ["ice-ufrag", "ice-pwd", "fingerprint", "setup"] {
                    #expect(second.media[1].value(name) == first.media[0].value(name))
                }
                let third = try answer(connection, withVideo.replacing("a=sendonly", with: "a=inactive"))
                #expect(third.media[1].has("inactive"))
                let fourth = try answer(connection, withVideo)
                #expect(fourth.media[1].has("recvonly"))
                let fifth = try answer(connection, application)
                #expect(fifth.media.count == 1)
            }
        }

        @Test func refusedWhereTheyAreNotAccepted() throws {
            try withAnswerer({ $0.acceptsDataChannels = false }) { connection in
                #expect(throws: PeerConnectionError.self) { try connection.createAnswer(to: application) }
                let sdp = try answer(connection, withVideo)
                #expect(sdp.media.map(\.port) == [0, 9])
            }
        }

        @Test func anotherVideoOrTransportIsAnError() throws {
            let changes = [
                ("a=mid:1", "a=mid:7"), ("a=ice-ufrag:SAMP", "a=ice-ufrag:OTHR"), ("m=video 9 UDP/TLS/RTP/SAVPF 96 97", "m=video 9 UDP/TLS/RTP/SAVPF 98"),
            ]
            for (old, new) in changes {
                try withAnswerer { connection in
                    _ = try answer(connection, withVideo)
                    #expect(throws: PeerConnectionError.self) { try connection.createAnswer(to: withVideo.replacing(old, with: new)) }
                }
            }
        }

        @Test func onlyWhatIsWanted() throws {
            let other = SampleOffer.video().replacing("a=mid:1", with: "a=mid:other").replacing("stream track", with: "foreign x")
            let sdp = SampleOffer.session + other + withVideo.dropFirst(SampleOffer.session.count)
            try withAnswerer { connection in
                let answer = try SDPDescription(
                    parsing: connection.createAnswer(to: sdp, wants: { $0 == "stream track" }))
                #expect(answer.media.map { $0.value("mid") } == ["other", "2", "1"])
                #expect(answer.media.map(\.port) == [0, 9, 9])
            }
        }

        /// A m-line that the far side sends on goes before one that it would only receive on.
        @Test func theOneThatSends() throws {
            let receiving = SampleOffer.video().replacing("a=mid:1", with: "a=mid:r").replacing("a=sendrecv", with: "a=recvonly")
            let sdp = SampleOffer.session + receiving + withVideo.dropFirst(SampleOffer.session.count)
            try withAnswerer { connection in
                let answer = try answer(connection, sdp)
                #expect(answer.values("group") == ["BUNDLE 2 1"])
            }
        }

        @Test func directionsAreLimited() throws {
            for (theirs, ours) in [("sendrecv", "recvonly"), ("sendonly", "recvonly")] {
                try withAnswerer { connection in
                    let sdp = try answer(connection, SampleOffer.session + SampleOffer.video().replacing("a=sendrecv", with: "a=\(theirs)"))
                    #expect(sdp.media[0].has(ours))
                }
            }
        }

        @Test func anOfferThatOnlySends() throws {
            try withAnswerer({
                $0.direction = .sendonly
                $0.msid = "camera cid"
            }) { connection in
                let sdp = try SDPDescription(parsing: connection.createOffer())
                #expect(sdp.media.map(\.kind) == ["video"])
                #expect(sdp.media[0].has("sendonly") && sdp.media[0].value("msid") == "camera cid")
            }
        }

        /// Sending and receiving each have an m-line, of one RTP session; what is received may be refused, or come later.
        @Test func linesOfTheirOwnForEachDirection() throws {
            GStreamerRuntime.initialise()
            var configuration = PeerConnectionConfiguration()
            (configuration.separatesDirections, configuration.audio) = (true, .recvonly)
            let connection = try PeerConnection(configuration: configuration) { _ in }
            defer {
                connection.close()
                connection.dismantle()
            }
            let offer = try SDPDescription(parsing: connection.createOffer())
            #expect(offer.media.map(\.kind) == ["video", "video", "audio"])
            #expect(offer.media[0].has("sendonly") && offer.media[1].has("recvonly") && offer.media[2].has("recvonly"))
            #expect(offer.media[1].value("msid") == nil && offer.media[0].value("msid") != nil)
            func line(_ text: String, mid: String, _ direction: String) -> String {
                text.replacing("actpass", with: "active").replacing("a=mid:1", with: "a=mid:\(mid)")
                    .replacing("a=mid:0", with: "a=mid:\(mid)").replacing("a=sendrecv", with: "a=\(direction)")
            }
            let sending = line(SampleOffer.video(), mid: "0", "recvonly")
            let sound = line(SampleOffer.audio, mid: "2", "inactive")
            let refused = line(SampleOffer.video(), mid: "1", "inactive").replacing("m=video 9 ", with: "m=video 0 ")
            try connection.setAnswer(SampleOffer.session + sending + refused + sound)
            #expect(connection.videoDirection == .sendonly && connection.audioDirection == .inactive)
            _ = try connection.createOffer()
            let receiving = line(SampleOffer.video(), mid: "1", "sendonly")
            try connection.setAnswer(SampleOffer.session + sending + receiving + sound)
            #expect(connection.videoDirection == .sendrecv)
            #expect(connection.sendParameters?.payloadType == 96)
        }
    }
}
