import GStreamerKit
import MediaSecurity
import RTP
import Testing
import WebRTCTransport

/// Parses offers and answers as text: accepted and refused ones, and their error messages. No agent, no socket.
@Suite(.timeLimit(.minutes(1)))
struct DescriptionTests {
    init() { GStreamerRuntime.initialise() }

    private func offer(_ text: String, available: (VideoCodec) -> Bool = { _ in true }) throws -> RemoteDescription {
        try RemoteDescription(parsing: text, isOffer: true, available: available)
    }

    private func code(_ text: String, isOffer: Bool = true) -> PeerConnectionError.Code? {
        do {
            _ = try RemoteDescription(parsing: text, isOffer: isOffer) { _ in true }
            return nil
        } catch {
            #expect(!error.message.isEmpty)
            return error.code
        }
    }

    @Test func aBrowsersOffer() throws {
        let remote = try offer(SampleOffer.browser)
        #expect(remote.videoIndex == 1)
        #expect(remote.video?.mid == "1")
        #expect(remote.kinds == ["audio", "video", "application"])
        #expect(remote.mids == ["0", "1", "2"])
        #expect(remote.video?.codec.codec == .vp8)
        #expect(remote.video?.codec.payloadType == 96)
        #expect(remote.video?.codec.retransmissionPayloadType == 97)
        #expect(remote.video?.codec.feedback == ["goog-remb", "transport-cc", "ccm fir", "nack", "nack pli"])
        #expect(remote.video?.extensions.transportWideCC == 4)
        #expect(remote.video?.extensions.absoluteSendTime == 2)
        #expect(remote.video?.extensions.mid == 9)
        #expect(remote.video?.ssrcs == [1234, 5678] && remote.video?.rtxSSRCs == [5678: 1234])
        #expect(remote.video?.direction == .sendrecv)
        #expect(remote.transport.usernameFragment == "SAMP")
        #expect(remote.transport.setup == "actpass")
        #expect(remote.transport.fingerprints.count == 1)
    }

    @Test(arguments: [("vp9", 98, 99), ("h264", 102, 103)] as [(String, Int, Int)])
    func aCodecThatIsNotFirst(name: String, type: Int, retransmission: Int) throws {
        let remote = try offer(SampleOffer.browser) { $0.rawValue == name }
        #expect(remote.video?.codec.codec.rawValue == name)
        #expect(remote.video?.codec.payloadType == type)
        #expect(remote.video?.codec.retransmissionPayloadType == retransmission)
    }

    @Test func sectionsInAnotherOrder() throws {
        let remote = try offer(SampleOffer.session + SampleOffer.application + SampleOffer.video() + SampleOffer.audio)
        #expect(remote.videoIndex == 1)
        #expect(remote.kinds == ["application", "video", "audio"])
        #expect(remote.video?.mid == "1")
    }

    private static let directions = ["sendrecv", "sendonly", "recvonly", "inactive"]

    /// A direction of the session is a default for m-lines without one (RFC 8866 6.7).
    @Test(arguments: directions, directions) func theDirectionOfTheMLineIsFirst(session: String, media: String) throws {
        let own = SampleOffer.session + "a=\(session)\r\n" + SampleOffer.video(direction: media)
        #expect(try offer(own).video?.direction == MediaDirection(rawValue: media)?.reversed)
        let bare = SampleOffer.video(without: ["a=sendrecv"])
        let inherited = SampleOffer.session + "a=\(session)\r\n" + bare
        #expect(try offer(inherited).video?.direction == MediaDirection(rawValue: session)?.reversed)
    }

    @Test func aRejectedVideoIsPassedOver() throws {
        let rejected = SampleOffer.video().replacing("m=video 9 ", with: "m=video 0 ").replacing(
            "a=mid:1", with: "a=mid:r")
        #expect(code(SampleOffer.session + rejected) == .rejected)
        let remote = try offer(SampleOffer.session + rejected + SampleOffer.video())
        #expect(remote.videoIndex == 1)
    }

    @Test func bundleOnlyHasPortZeroAndIsTaken() throws {
        let video = SampleOffer.video(adding: "a=bundle-only\r\n").replacing("m=video 9 ", with: "m=video 0 ")
        #expect(try offer(SampleOffer.session + SampleOffer.audio + video).videoIndex == 1)
    }

    @Test func transportParametersOfTheBundleOrTheSession() throws {
        let bare = SampleOffer.video(without: ["a=ice-ufrag", "a=ice-pwd", "a=fingerprint", "a=setup"])
        let remote = try offer(SampleOffer.session + SampleOffer.audio + bare)
        #expect(remote.transport.usernameFragment == "SAMP")
        let session = SampleOffer.session + SampleOffer.transport + bare
        #expect(try offer(session).transport.password == "0123456789abcdefghijklmn")
    }

    @Test func retransmissionThatBelongsToNothing() throws {
        for line in ["a=fmtp:97 apt=96", "a=fmtp:97 rtx-time=3000"] {
            let video = SampleOffer.video(without: ["a=fmtp:97"]) + (line.contains("rtx-time") ? line + "\r\n" : "")
            #expect(try offer(SampleOffer.session + video).video?.codec.retransmissionPayloadType == nil)
        }
        let elsewhere = SampleOffer.video().replacing("a=fmtp:97 apt=96", with: "a=fmtp:97 apt=98")
        #expect(try offer(SampleOffer.session + elsewhere).video?.codec.retransmissionPayloadType == nil)
    }

    @Test(arguments: ["FID 1234", "FID", "", "SIM 1234 5678", "FID x 5678", "FID 1234 -1", "FID 1234 5678 9"])
    func groupsThatAreNoRetransmission(group: String) throws {
        let video = SampleOffer.video().replacing("ssrc-group:FID 1234 5678", with: "ssrc-group:" + group)
        #expect(try offer(SampleOffer.session + video).video?.rtxSSRCs == [:])
    }

    @Test(arguments: [
        ("42e01f;packetization-mode=1", true), ("42001f;packetization-mode=1", true),
        ("42E01F; packetization-mode=1", true),
        ("42e01f;packetization-mode=0", false), ("42e01f", false), ("640c1f;packetization-mode=1", false),
        ("4d001f;packetization-mode=1", false),
    ])
    func profilesOfH264(parameters: String, isTaken: Bool) throws {
        let video =
            SampleOffer.video(without: ["a=fmtp:102"])
            + "a=fmtp:102 level-asymmetry-allowed=1;profile-level-id=\(parameters)\r\n"
        let remote = try? offer(SampleOffer.session + video) { $0 == .h264 }
        #expect((remote?.video?.codec.payloadType == 102) == isTaken)
    }

    @Test(
        arguments: [
            ("15 urn:ietf:params:rtp-hdrext:sdes:mid", nil), ("0 urn:ietf:params:rtp-hdrext:sdes:mid", nil),
            ("300 urn:ietf:params:rtp-hdrext:sdes:mid", nil), ("-1 urn:ietf:params:rtp-hdrext:sdes:mid", nil),
            ("99999999999999999999 urn:ietf:params:rtp-hdrext:sdes:mid", nil),
            ("urn:ietf:params:rtp-hdrext:sdes:mid", nil),
            ("", nil), ("/ /", nil), ("14/sendonly urn:ietf:params:rtp-hdrext:sdes:mid", 14),
            ("14 urn:ietf:params:rtp-hdrext:sdes:mid with attributes", 14), ("1 urn:unknown", nil),
        ] as [(String, UInt8?)])
    func extensionNumbers(line: String, mid: UInt8?) {
        #expect(HeaderExtensionIDs(extmap: [line]).mid == mid)
    }

    @Test func refusals() {
        let whole = SampleOffer.session + SampleOffer.video()
        func with(_ old: String, _ new: String) -> String { whole.replacing(old, with: new) }
        #expect(code(whole) == nil)
        let table: [(String, PeerConnectionError.Code)] = [
            ("", .badDescription), ("v=0", .rejected), ("hello\r\n", .badDescription),
            ("v=1\r\n" + whole.dropFirst(5), .badDescription),
            ("\u{0}" + whole, .badDescription), (with("s=-", "s=\u{0}"), .badDescription),
            (SampleOffer.session, .rejected), (SampleOffer.session + SampleOffer.audio, .rejected),
            (with("a=rtcp-mux\r\n", ""), .badDescription),
            (with("a=setup:actpass", "a=setup:holdconn"), .badDescription),
            (with("a=setup:actpass", "a=setup:"), .badDescription),
            (SampleOffer.session + SampleOffer.video(without: ["a=fingerprint"]), .badDescription),
            (with("sha-256", "sha-1"), .badDescription), (with("sha-256 ", "sha-256 AA:"), .badDescription),
            (SampleOffer.session + SampleOffer.video(without: ["a=ice-ufrag"]), .badDescription),
            (with("a=ice-ufrag:SAMP", "a=ice-ufrag:S"), .badDescription),
            (with("a=ice-pwd:0123456789abcdefghijklmn", "a=ice-pwd:short"), .badDescription),
            (with("a=ice-pwd:", "a=ice-pwd:" + String(repeating: "x", count: 300)), .badDescription),
            (with("UDP/TLS/RTP/SAVPF", "RTP/AVP"), .badDescription),
            (SampleOffer.session + SampleOffer.video(without: ["a=rtpmap"]), .rejected),
            (with(" VP8/", " AV1/").replacing(" VP9/", with: " H266/").replacing(" H264/", with: " X/"), .rejected),
            (whole + String(repeating: SampleOffer.audio, count: 64), .badDescription),
            (whole + "a=x:" + String(repeating: "y", count: 70_000) + "\r\n", .badDescription),
        ]
        for (text, expected) in table { #expect(code(text) == expected, "\(text.prefix(400))") }
        #expect(code(with("actpass", "actpass"), isOffer: false) == .badDescription, "an answer must choose a role")
        #expect(code(with("actpass", "active"), isOffer: false) == nil)
    }

    @Test func sixtyFourSectionsAreTheMost() throws {
        let text = SampleOffer.session + String(repeating: SampleOffer.audio, count: 63) + SampleOffer.video()
        #expect(try offer(text).videoIndex == 63)
    }

    @Test func candidatesAreBounded() throws {
        let line = "a=candidate:1 1 udp 2113937151 127.0.0.1 50000 typ host\r\n"
        let remote = try offer(SampleOffer.session + SampleOffer.video(adding: String(repeating: line, count: 500)))
        #expect(remote.candidates.count == 64)
        #expect(remote.candidates.first == "candidate:1 1 udp 2113937151 127.0.0.1 50000 typ host")
    }

    /// Of one transport, candidates may be on the first m-line of the bundle alone, also if another one was chosen.
    @Test func candidatesOfAnotherLineCount() throws {
        let line = "a=candidate:1 1 udp 2113937151 192.0.2.1 50000 typ host\r\na=end-of-candidates\r\n"
        let other = line.replacing("192.0.2.1", with: "192.0.2.2")
        let audio = SampleOffer.audio
        let remote = try offer(SampleOffer.session + audio + line + SampleOffer.video())
        #expect(remote.transportIndex == 1 && remote.endOfCandidates)
        #expect(remote.candidates == ["candidate:1 1 udp 2113937151 192.0.2.1 50000 typ host"])
        let both = try offer(SampleOffer.session + audio + line + SampleOffer.video(adding: other))
        #expect(both.candidates == ["candidate:1 1 udp 2113937151 192.0.2.2 50000 typ host"])
        // Neither does a rejected one say that no candidate follows, nor does it hide those of others.
        let rejected = audio.replacing("m=audio 9", with: "m=audio 0")
        #expect(rejected != audio)
        let later = try offer(SampleOffer.session + rejected + line + SampleOffer.video())
        #expect(!later.endOfCandidates)
        let third = try offer(SampleOffer.session + rejected + line + audio + other + SampleOffer.video())
        #expect(third.candidates == both.candidates)
    }

    /// Lists as long as a description of 64 KiB allows; the suite's time limit is many times their parsing time.
    @Test func longListsTakeLinearTime() throws {
        let types = Array(repeating: "96", count: 20_000).joined(separator: " ")
        let repeated = SampleOffer.video().replacing("SAVPF 96 97 98 99 102 103", with: "SAVPF \(types)")
        let remote = try offer(SampleOffer.session + repeated.replacing("a=fmtp:97 apt=96", with: "a=fmtp:97 apt=95"))
        #expect(remote.video?.codec.payloadType == 96 && remote.video?.codec.retransmissionPayloadType == nil)
        // Every payload type is a codec, and each of its attributes occurs many times.
        let all = (0...127).map(String.init).joined(separator: " ")
        for line in ["rtcp-fb:* x", "rtcp-fb:9 x", "fmtp:97 apt=", "rtpmap:9 VP8/", "extmap:3 x", "ssrc:"] {
            let lines = (0..<2000).map { "a=\(line)\($0)\r\n" }.joined()
            let codecs = (0...127).map { "a=rtpmap:\($0) VP8/90000\r\n" }.joined()
            let video = SampleOffer.video(adding: codecs + lines)
                .replacing("SAVPF 96 97 98 99 102 103", with: "SAVPF \(all)")
            #expect(try offer(SampleOffer.session + video).video?.codec.payloadType == 0, "\(line)")
        }
    }

    @Test func moreAttributesThanAnyDescriptionHasAreRefused() {
        let many = String(repeating: "a=x\r\n", count: 5000)
        #expect(code(SampleOffer.session + many + SampleOffer.video()) == .badDescription)
        #expect(code(SampleOffer.session + SampleOffer.video(adding: many)) == .badDescription)
        let fewer = String(repeating: "a=x\r\n", count: 3000)
        #expect(code(SampleOffer.session + SampleOffer.video(adding: fewer)) == nil)
    }

    /// Errors reach terminals and logs: they are short and contain no control characters of the remote peer.
    @Test func errorsHoldNoWordsThatHarm() {
        let escape = "\u{1b}]0;owned\u{7}"
        let whole = SampleOffer.session + SampleOffer.video()
        let names = (0..<2000).map { "a=rtpmap:\($0 % 128) \(escape)\($0)/90000\r\n" }.joined()
        let descriptions = [
            SampleOffer.session + SampleOffer.video(without: ["a=rtpmap"]) + names,
            whole.replacing("a=setup:actpass", with: "a=setup:\(escape)"),
            whole.replacing("a=setup:actpass", with: "a=setup:e" + String(repeating: "\u{301}", count: 20_000)),
            whole.replacing("UDP/TLS/RTP/SAVPF", with: escape),
            whole.replacing("a=fingerprint:sha-256", with: "a=fingerprint:\(escape)"),
        ]
        for text in descriptions {
            do {
                _ = try offer(text)
                Issue.record("taken: \(text.prefix(300))")
            } catch let error as PeerConnectionError {
                #expect(error.message.utf8.count <= 600)
                #expect(
                    error.message.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) })
            } catch { Issue.record("\(error)") }
        }
    }

    /// Seeded, so that failures are reproducible. No description may trap or exceed its share of the time.
    @Test func mutatedDescriptions() {
        var mutator = TextMutator(seed: 20_261_121)
        let seeds = [
            SampleOffer.browser, SampleOffer.session + SampleOffer.video(),
            SampleOffer.session + SampleOffer.transport
                + SampleOffer.application + SampleOffer.video(adding: "a=end-of-candidates\r\n"),
        ].map { Array($0.utf8) }
        var (taken, refused) = (0, 0)
        for round in 0..<20_000 {
            let bytes = mutator.mutate(seeds[round % seeds.count])
            let text = String(decoding: bytes, as: UTF8.self)
            do {
                let remote = try RemoteDescription(parsing: text, isOffer: round % 2 == 0) { _ in true }
                #expect(
                    remote.kinds.indices.contains(remote.videoIndex ?? -1)
                        && remote.kinds.count == remote.mids.count)
                taken += 1
            } catch {
                refused += 1
            }
        }
        // Both outcomes must occur often.
        #expect(taken > 1000 && refused > 1000, "\(taken) taken, \(refused) refused")
    }
}
