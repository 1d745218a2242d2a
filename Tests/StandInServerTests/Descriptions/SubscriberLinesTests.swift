import GStreamerKit
import RTP
import StandInServer
import Testing
import WebRTCTransport

/// The offers of a room, as LiveKit's servers make them.
struct SubscriberLinesTests {
    private static let audio = OutputTrack(.audio, sid: "TR_AM")
    private static let video = OutputTrack(.video, sid: "TR_VC")

    private static func output(
        _ track: OutputTrack, _ codec: OutputCodec, ssrc: UInt32 = 7
    ) -> (OutputTrack, OutputStream, OutputCodec) {
        let stream = OutputStream(
            msid: "PA_1|\(track.sid) \(track.sid)", ssrc: ssrc,
            rtxSSRC: track.kind == .video ? ssrc + 1 : nil)
        return (track, stream, codec)
    }

    private static func lines() throws -> SubscriberLines {
        GStreamerRuntime.initialise()
        var lines = SubscriberLines()
        lines.setTransport(
            try SDPDescription(
                parsing: "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nt=0 0\nm=video 9 UDP/TLS/RTP/SAVPF 96\n"
                    + "a=ice-ufrag:abcd\na=ice-pwd:secret\na=fingerprint:sha-256 00:11\na=setup:actpass\n"))
        return lines
    }

    /// An answer that takes these payload types of each m-line; empty: it rejects the m-line.
    private static func answer(_ offer: SDPDescription, _ types: [[String]]) -> SDPDescription {
        var answer = offer
        for (index, types) in zip(offer.media.indices.dropFirst(), types) {
            answer.media[index].port = types.isEmpty ? 0 : 9
            answer.media[index].formats = types
        }
        return answer
    }

    @Test func theFirstOfferHasDataChannelsOnly() throws {
        var lines = try Self.lines()
        let offer = try SDPDescription(parsing: lines.offer())
        #expect(offer.media.map(\.kind) == ["application"] && offer.media[0].value("candidate") == nil)
        #expect(offer.values("group") == ["BUNDLE 0"] && offer.media[0].value("ice-ufrag") == "abcd")
    }

    @Test func everyCodecIsOffered() throws {
        var lines = try Self.lines()
        _ = lines.offer()
        #expect(
            lines.found("candidate:1 1 UDP 9 192.0.2.1 5000 typ host")
                == "candidate:1 1 UDP 9 192.0.2.1 5000 typ host ufrag abcd")
        #expect(lines.found(nil) == nil)
        lines.set([Self.output(Self.audio, .opus), Self.output(Self.video, OutputCodec("vp9"))])
        let offer = try SDPDescription(parsing: lines.offer())
        #expect(
            offer.media[0].values("candidate") == [
                "1 1 UDP 9 192.0.2.1 5000 typ host ufrag abcd", "1 2 UDP 9 192.0.2.1 5000 typ host ufrag abcd",
            ])
        #expect(offer.media[0].has("end-of-candidates"))
        #expect(offer.media[1].formats == ["111", "63", "0", "8"])
        let video = offer.media[2]
        #expect(
            video.formats == [
                "96", "97", "98", "99", "100", "101", "125", "126", "108", "109", "35", "36", "116", "117",
            ])
        #expect(video.has("sendrecv") && video.value("msid") == "PA_1|TR_VC TR_VC")
        #expect(video.value("ssrc-group") == "FID 7 8" && video.values("ssrc").count == 8)
        #expect(lines.mids == ["1": Self.audio, "2": Self.video])
    }

    @Test func aTrackIsSentInThePayloadTypeOfItsCodec() throws {
        for (codec, type) in [
            (OutputCodec("vp8"), 96), (OutputCodec("vp9"), 98), (OutputCodec("h264"), 108),
            (OutputCodec("h264", isSingleUnit: true), 125), (OutputCodec("h265"), 116),
        ] {
            var lines = try Self.lines()
            lines.set([Self.output(Self.video, codec)])
            let offer = try SDPDescription(parsing: lines.offer())
            #expect(lines.answered(offer).map(\.payloadType) == [type])
        }
    }

    @Test(arguments: [true, false]) func redundancyIsThatOfTheTrack(isRedundant: Bool) throws {
        var lines = try Self.lines()
        let track = OutputTrack(.audio, sid: "TR_AM", isRedundant: isRedundant)
        lines.set([Self.output(track, .opus)])
        let offer = try SDPDescription(parsing: lines.offer())
        let whole = try #require(lines.answered(offer).first)
        #expect(whole.payloadType == 111 && whole.redundancyType == (isRedundant ? 63 : nil))
        lines = try Self.lines()
        lines.set([Self.output(track, .opus)])
        _ = lines.offer()
        #expect(lines.answered(Self.answer(offer, [["111"]])).first?.redundancyType == nil)
    }

    @Test func anAnswerWithoutTheCodecRefusesTheTrack() throws {
        var lines = try Self.lines()
        lines.set([Self.output(Self.video, OutputCodec("h264"))])
        let offer = try SDPDescription(parsing: lines.offer())
        #expect(lines.answered(Self.answer(offer, [["96", "97"]])).map(\.payloadType) == [nil])
    }

    /// The removed track's m-line stays and serves the next track, with what its first answer took.
    @Test func anAnsweredLineIsReusedAndNarrowed() throws {
        var lines = try Self.lines()
        lines.set([Self.output(Self.video, OutputCodec("vp8"))])
        _ = lines.answered(Self.answer(try SDPDescription(parsing: lines.offer()), [["96", "97"]]))
        lines.set([])
        let without = try SDPDescription(parsing: lines.offer()).media[1]
        #expect(without.has("recvonly") && !without.has("msid") && !without.has("ssrc"))
        #expect(without.formats == ["96", "97"] && lines.mids.isEmpty)
        let next = OutputTrack(.video, sid: "TR_2", publication: 2)
        lines.set([Self.output(next, OutputCodec("vp8"), ssrc: 20)])
        let again = try SDPDescription(parsing: lines.offer())
        #expect(again.media.count == 2 && again.media[1].formats == ["96", "97"])
        #expect(again.media[1].value("ssrc-group") == "FID 20 21" && lines.mids == ["1": next])
        // H.264 does not fit into it any more.
        lines.set([Self.output(OutputTrack(.video, sid: "TR_3"), OutputCodec("h264"))])
        #expect(lines.answered(again).map(\.payloadType) == [nil])
    }

    @Test func aTrackBeforeTheEndOfTheFormerGetsALineOfItsOwn() throws {
        var lines = try Self.lines()
        let next = OutputTrack(.video, sid: "TR_2")
        lines.set([Self.output(Self.video, OutputCodec("vp8"))])
        lines.set([Self.output(Self.video, OutputCodec("vp8")), Self.output(next, OutputCodec("vp8"), ssrc: 20)])
        #expect(lines.mids == ["1": Self.video, "2": next])
        var moved = try Self.lines()
        moved.set([Self.output(Self.video, OutputCodec("vp8"))])
        moved.retire(.video)
        moved.set([Self.output(next, OutputCodec("vp8"))])
        #expect(moved.mids == ["2": next])
    }

    /// LiveKit's servers send on it all the same, and offer it as before.
    @Test func aRejectedLineIsUsed() throws {
        var lines = try Self.lines()
        lines.set([Self.output(Self.video, OutputCodec("h264"))])
        let offer = try SDPDescription(parsing: lines.offer())
        #expect(lines.answered(Self.answer(offer, [[]])).map(\.payloadType) == [108])
        #expect(try SDPDescription(parsing: lines.offer()).media[1].formats == offer.media[1].formats)
    }
}
