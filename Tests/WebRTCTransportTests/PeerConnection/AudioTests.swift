import CGStreamer
import GStreamerKit
import Glibc
import ICE
import TestSupport
import Testing
import WebRTCTransport

/// Audio alongside video on one connection: from the start, added later, and removed again.
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
            let (a, b) = (try TestPeer(configuration(audio: first)), try TestPeer(configuration(audio: second)))
            defer { TestPeer.stop(a, b) }
            try join(a, b, mangleOffer: mangleOffer)
            try TestPeer.startMedia(a, b)
            try body(a, b)
        }

        private func framesContinue(_ a: TestPeer, _ b: TestPeer) -> Bool {
            let (before, after) = (a.frames, b.frames)
            return a.waitForFrames(before + 10) && b.waitForFrames(after + 10)
        }

        /// True if none arrives at `b` while video continues; packets in flight may come before that.
        private func audioStops(_ a: TestPeer, _ b: TestPeer) -> Bool {
            for _ in 0..<10 {
                let packets = b.connection.statistics().audio?.packetsReceived
                guard framesContinue(a, b) else { return false }
                if b.connection.statistics().audio?.packetsReceived == packets { return true }
            }
            return false
        }

        /// Audio that is added while frames flow.
        @Test func threads() throws {
            guard getenv("DECART_TEST_SOUND_THREADS") == nil else { return try countThreads() }
            let (status, output) = try runInChild(
                "AudioTests[./]threads", environment: ["DECART_TEST_SOUND_THREADS": "1"], within: .seconds(100))
            let text = output.joined(separator: "\n")
            #expect(status == 0 && text.contains("threads of sound"), "\(text)")
        }

        private func countThreads() throws {
            try withPair(nil, .sendrecv) { a, b in
                #expect(a.waitForFrames(40) && b.waitForFrames(40))
                #expect(a.connection.audioSendParameters == nil && a.connection.bin.staticPad("audio_rtp_sink") == nil)
                let before = settledThreads()
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                // Each peer may add four threads: RTCP, jitter buffer, its timer, and the audio test source.
                // Threads of the start, and those of a pool, may come and go meanwhile.
                var added: Set<String> = []
                let isBounded = eventually(seconds: 40) {
                    added = Self.mediaThreads.subtracting(before)
                    return added.count <= 2 * 4
                }
                #expect(isBounded, "\(added)")
                #expect(framesContinue(a, b))
                measure("longest gap", max(a.seen.value.longestGap, b.seen.value.longestGap), atMost: .seconds(1))
                print("threads of sound: \(added.sorted())")
            }
        }

        @Test func withdrawnAndRestored() throws {
            try withPair(.sendrecv, .sendrecv) { a, b in
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440) && a.waitToHear(1000))
                #expect(framesContinue(a, b))
                #expect(
                    eventually {
                        a.connection.statistics().audio.map { $0.packetsSent > 10 && $0.packetsReceived > 10 } ?? false
                    })
                let statistics = a.connection.statistics()
                let audio = try #require(statistics.audio)
                // The other counters are the video's alone.
                #expect(statistics.packetsRefused == 0 && ![0, audio.bytesSent].contains(statistics.bytesSent))
                a.connection.setMedia(video: .sendrecv, audio: nil)
                try renegotiate(a, b)
                #expect(a.connection.audioDirection == .inactive && b.connection.audioDirection == .inactive)
                #expect(audioStops(a, b))
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                let received = b.received.value.buffers
                #expect(b.received.wait(.seconds(20)) { $0.buffers > received + 20 && $0.hears(440) })
                #expect(framesContinue(a, b))
            }
        }

        /// A later offer may lack redundancy, which ends ours.
        @Test func redundancyFollowsTheLatestOffer() throws {
            let (a, b) = (try TestPeer(configuration(audio: .sendrecv)), try TestPeer(configuration(audio: .sendrecv)))
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            #expect(a.connection.audioSendParameters?.redundancyType == 63)
            #expect(b.connection.audioSendParameters?.redundancyType == 63)
            let offer = try a.connection.createOffer().replacing("red/48000/2", with: "x-red/48000/2")
            try a.connection.setAnswer(b.connection.createAnswer(to: offer))
            #expect(a.connection.audioSendParameters?.redundancyType == nil)
            #expect(b.connection.audioSendParameters?.redundancyType == nil)
        }

        @Test func theVideoIsWithdrawnAndRestored() throws {
            try withPair(.sendrecv, .sendrecv) { a, b in
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(a.waitForFrames(10) && b.waitForFrames(10) && b.waitToHear(440))
                a.connection.setMedia(video: .recvonly, audio: .sendrecv)
                try renegotiate(a, b)
                #expect(a.connection.videoDirection == .recvonly && b.connection.videoDirection == .sendonly)
                // Frames in flight may arrive first; video in the other direction and the audio continue.
                var isStopped = false
                for _ in 0..<10 where !isStopped {
                    let (frames, back, received) = (b.frames, a.frames, b.received.value.buffers)
                    try #require(a.waitForFrames(back + 10))
                    try #require(b.received.wait(.seconds(20)) { $0.buffers > received + 10 })
                    isStopped = b.frames == frames
                }
                #expect(isStopped)
                a.connection.setMedia(video: .sendrecv, audio: .sendrecv)
                try renegotiate(a, b)
                #expect(framesContinue(a, b))
            }
        }

        /// The delay that keeps video in sync with audio ends when a negotiation ends the audio.
        @Test func theDelayEndsWithTheSound() throws {
            let (a, b) = (try TestPeer(configuration(audio: .sendrecv)), try TestPeer(configuration(audio: .sendrecv)))
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b, mangleOffer: withoutSSRCs)
            try b.startMedia()
            try #require(a.waitForConnected() && b.waitForConnected())
            let types = try [
                #require(a.connection.sendParameters?.payloadType),
                #require(a.connection.audioSendParameters?.payloadType),
            ]
            let times = Watched<[Int64]>([])
            b.connection.bin.staticPad("rtp_src")?.addProbe(.buffer) { item in
                if case .buffer(let packet) = item { times.change { $0.append(Int64(clamping: packet.pts ?? 0)) } }
                return .pass
            }
            let begun = ContinuousClock.now
            var sequence = 0
            /// Sends a packet of each kind, and reports that let audio of the same time be 500 ms late.
            /// - Returns: by how much the video packet is delayed, in ms.
            func step() throws -> Int64 {
                sequence += 1
                let elapsed = ContinuousClock.now - begun
                let ms = Int(elapsed / .milliseconds(1))
                for (index, rate) in [90, 48].enumerated() {
                    let (ssrc, time) = (big(0x7000 + index, 4), big(ms * rate, 4))
                    a.connection.forge(
                        rtp: [0x80, 0x80 | UInt8(types[index])] + big(sequence, 2) + time + ssrc + [0x10, 1, 2, 3])
                    letTheNetworkThreadRun()
                    let seconds = Double(ms + 5_000 - 500 * index) / 1000
                    let ntp = big(Int(seconds), 4) + big(Int(seconds.truncatingRemainder(dividingBy: 1) * 0x1p32), 4)
                    var report: [UInt8] = [0x80, 200, 0, 6] + ssrc
                    report += ntp + time + big(sequence, 4)
                    report += big(sequence * 4, 4)
                    let description: [UInt8] = [0x81, 202, 0, 2] + ssrc + [1, 1, 0x61, 0]
                    a.connection.forge(rtcp: report + description)
                    letTheNetworkThreadRun()
                }
                let count = sequence
                try #require(times.wait(.seconds(20)) { $0.count == count })
                return (times.value[sequence - 1] - times.value[0]) / 1_000_000 - Int64(ms)
            }
            let isDelayed = eventually(seconds: 20) { (try? step()).map { $0 > 60 } ?? false }
            #expect(isDelayed)
            a.connection.setMedia(video: .sendrecv, audio: nil)
            try a.connection.setAnswer(
                b.connection.createAnswer(to: withoutSSRCs(a.connection.createOffer())))
            // A frame never comes before its predecessor, so the delay is gone after as much time.
            let isOver = eventually(seconds: 20) { (try? step()).map { $0 < 40 } ?? false }
            #expect(isOver, "video is still delayed for audio that has ended")
        }

        /// If audio and video have the same payload type, the demuxer uses the SSRC, or the mid if no SSRC is declared.
        @Test(arguments: [true, false])
        func onePayloadTypeForBoth(declaresSources: Bool) throws {
            let mangle = { (offer: String) in
                let lines = offer.replacing("SAVPF 111", with: "SAVPF 96").replacing(":111 ", with: ":96 ")
                return declaresSources ? lines : withoutSSRCs(lines)
            }
            try withPair(.sendrecv, .sendrecv, mangleOffer: mangle) { a, b in
                #expect(a.connection.audioSendParameters?.payloadType == 96)
                try a.startAudio(frequency: 440)
                try b.startAudio(frequency: 1000)
                #expect(b.waitToHear(440))
                #expect(framesContinue(a, b))
            }
        }

        /// The media threads once they have not changed for a second.
        private func settledThreads() -> Set<String> {
            var (last, since) = (Self.mediaThreads, ContinuousClock.now)
            _ = eventually(seconds: 20) {
                let now = Self.mediaThreads
                if now != last { (last, since) = (now, .now) }
                return ContinuousClock.now - since > .seconds(1)
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
