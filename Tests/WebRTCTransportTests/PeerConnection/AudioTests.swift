import CGStreamer
import GStreamerKit
import Glibc
import ICE
import Testing
import WebRTCTransport

/// Audio alongside video on one connection: from the start, added later, refused, and removed again.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct AudioTests {
        private func configuration(audio: MediaDirection?) -> PeerConnectionConfiguration {
            var configuration = PeerConnectionConfiguration()
            configuration.audio = audio
            return configuration
        }

        /// Two connected peers with flowing video.
        private func withPair(
            _ first: MediaDirection?, _ second: MediaDirection?, mangleOffer: (String) -> String = { $0 },
            _ body: (TestPeer, TestPeer) throws -> Void
        ) throws {
            let a = try TestPeer(configuration(audio: first))
            let b = try TestPeer(configuration(audio: second))
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b, mangleOffer: mangleOffer)
            try a.startMedia()
            try b.startMedia()
            try body(a, b)
        }

        private func picturesGoOn(_ a: TestPeer, _ b: TestPeer) -> Bool {
            let (before, after) = (a.frames, b.frames)
            return a.waitForFrames(before + 30) && b.waitForFrames(after + 30)
        }

        @Test func fromTheStart() throws {
            try withPair(.sendrecv, .sendrecv) { a, b in
                #expect(a.connection.audioDirection == .sendrecv && b.connection.audioDirection == .sendrecv)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                #expect(picturesGoOn(a, b))
                let statistics = a.connection.statistics()
                let audio = try #require(statistics.audio)
                #expect(audio.packetsSent > 10 && audio.packetsReceived > 10)
                // The other counters are the video's alone.
                #expect(statistics.packetsRefused == 0 && statistics.bytesSent > audio.bytesSent)
            }
        }

        @Test func laterWhilePicturesFlow() throws {
            try withPair(nil, .sendrecv) { a, b in
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
                #expect(a.connection.audioSendParameters == nil && a.connection.bin.staticPad("audio_rtp_sink") == nil)
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                #expect(picturesGoOn(a, b))
                #expect(a.seen.value.longestGap < .seconds(1) && b.seen.value.longestGap < .seconds(1))
            }
        }

        /// Runs in a child process, because other tests in this process start and end threads too.
        @Test func threads() throws {
            guard getenv("DECART_TEST_SOUND_THREADS") == nil else { return try countThreads() }
            let output = Watched<[String]>([])
            let worker = try ChildProcess(
                ["/proc/self/exe", "--filter", "AudioTests[./]threads", "--testing-library", "swift-testing"],
                environment: ["DECART_TEST_SOUND_THREADS": "1", "SWIFT_BACKTRACE": "enable=no"], mergingErrors: true)
            worker.readLines { line in
                let text = String(decoding: line, as: UTF8.self)
                output.change { $0.append(text) }
            }
            let status = worker.end(within: .seconds(60))
            let text = output.value.joined(separator: "\n")
            #expect(status == 0 && text.contains("threads of sound"), "\(text)")
        }

        private func countThreads() throws {
            try withPair(nil, .sendrecv) { a, b in
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
                let before = Self.mediaThreads
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                // Each peer may add four threads: RTCP, jitter buffer, its timer, and the audio test source.
                let added = Self.mediaThreads.subtracting(before)
                #expect(added.count <= 2 * 4, "\(added)")
                print("threads of sound: \(added.sorted())")
            }
        }

        @Test func refused() throws {
            try withPair(.sendrecv, nil) { a, b in
                #expect(a.connection.audioDirection == nil && a.connection.audioSendParameters == nil)
                #expect(a.connection.videoDirection == .sendrecv)
                #expect(picturesGoOn(a, b))
                // A later offer repeats the rejected m-line with port 0, at the same index (RFC 8829 5.2.2).
                let offer = try SDPDescription(parsing: a.connection.createOffer())
                #expect(offer.media.map(\.kind) == ["video", "audio"] && offer.media[1].port == 0)
            }
        }

        @Test func refusedLater() throws {
            try withPair(nil, nil) { a, b in
                #expect(a.waitForFrames(10))
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                #expect(a.connection.audioDirection == nil && b.connection.audioDirection == nil)
                #expect(picturesGoOn(a, b))
            }
        }

        @Test func withdrawnAndRestored() throws {
            try withPair(.sendrecv, .sendrecv) { a, b in
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                a.connection.setMedia(video: .sendrecv, audio: nil)
                try renegotiate(a, b)
                #expect(a.connection.audioDirection == .inactive && b.connection.audioDirection == .inactive)
                // Packets in flight still arrive; after that the counter stays constant.
                let packets = settled { b.connection.statistics().audio?.packetsReceived }
                #expect(picturesGoOn(a, b))
                #expect(b.connection.statistics().audio?.packetsReceived == packets)
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                let received = b.received.value.buffers
                #expect(b.received.wait(.seconds(20)) { $0.buffers > received + 20 && $0.hears(440) })
                #expect(picturesGoOn(a, b))
            }
        }

        @Test func thePictureIsWithdrawnAndRestored() throws {
            try withPair(.sendrecv, .sendrecv) { a, b in
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(a.waitForFrames(10) && b.waitForFrames(10) && b.waitToHear(440))
                a.connection.setMedia(video: .recvonly, audio: .sendrecv)
                try renegotiate(a, b)
                #expect(a.connection.videoDirection == .recvonly && b.connection.videoDirection == .sendonly)
                _ = settled { b.connection.statistics().packetsReceived }
                let (frames, back, received) = (b.frames, a.frames, b.received.value.buffers)
                // Video in the other direction and the audio continue.
                #expect(a.waitForFrames(back + 30) && b.received.wait(.seconds(20)) { $0.buffers > received + 20 })
                #expect(b.frames <= frames + 1)
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                #expect(picturesGoOn(a, b))
            }
        }

        /// `rollbackOffer` rolls an unanswered offer back: a late answer is refused, and the same offer then succeeds.
        @Test func anOfferIsForgotten() throws {
            try withPair(nil, .sendrecv) { a, b in
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                let lost = try a.connection.createOffer()
                let late = try b.connection.createAnswer(to: lost)
                #expect(throws: PeerConnectionError.self) { try a.connection.createOffer() }
                a.connection.rollbackOffer()
                #expect(throws: PeerConnectionError.self) { try a.connection.setAnswer(late) }
                #expect(a.connection.audioDirection == nil)
                try renegotiate(a, b)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                #expect(picturesGoOn(a, b))
            }
        }

        /// If audio and video have the same payload type, the demuxer uses the SSRC, or the mid if no SSRC is declared.
        @Test(arguments: [true, false])
        func onePayloadTypeForBoth(declaresSources: Bool) throws {
            let mangle = { (offer: String) in
                let lines = offer.replacing("SAVPF 111", with: "SAVPF 96").replacing(":111 ", with: ":96 ")
                return declaresSources
                    ? lines
                    : lines.split(separator: "\r\n" as Character)
                        .filter { !$0.hasPrefix("a=ssrc") }.map { $0 + "\r\n" }.joined()
            }
            try withPair(.sendrecv, .sendrecv, mangleOffer: mangle) { a, b in
                #expect(a.connection.audioSendParameters?.payloadType == 96)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440))
                #expect(picturesGoOn(a, b))
            }
        }

        /// Returns the value once it has not changed for half a second, or its last value after 5 s.
        private func settled(_ value: () -> UInt64?) -> UInt64? {
            var (last, since) = (value(), ContinuousClock.now)
            _ = settles(within: .seconds(5)) {
                let now = value()
                if now != last { (last, since) = (now, .now) }
                return ContinuousClock.now - since > .milliseconds(500)
            }
            return last
        }

        /// Threads of the process, except unnamed ones (Swift, Dispatch): they have the process name, and come and go.
        private static var mediaThreads: Set<String> {
            guard let folder = opendir("/proc/self/task") else { return [] }
            defer { closedir(folder) }
            var found: Set<String> = []
            while let entry = readdir(folder) {
                let id = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                guard let file = fopen("/proc/self/task/\(id)/comm", "r") else { continue }
                defer { fclose(file) }
                var line = [CChar](repeating: 0, count: 64)
                guard fgets(&line, 63, file) != nil else { continue }
                let name = String(
                    decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                if !name.hasPrefix("gst-decart") { found.insert("\(id) \(name)") }
            }
            return found
        }
    }
}
