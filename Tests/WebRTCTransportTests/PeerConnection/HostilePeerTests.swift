import GStreamerKit
import Glibc
import ICE
import Log
import RTP
import TestSupport
import Testing
import WebRTCTransport

func big(_ value: Int, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
}

extension Transport {
    /// The remote peer has the SRTP keys and misbehaves.
    @Suite(.timeLimit(.minutes(2)))
    struct HostilePeerTests {
        private func withPair(_ body: (TestPeer, TestPeer) throws -> Void) throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            // Of the streams of an m-line that names its SSRCs, no other one is admitted.
            try join(a, b, mangleOffer: withoutSSRCs)
            try TestPeer.startMedia(a, b)
            try #require(a.waitForFrames(10) && b.waitForFrames(10))
            try body(a, b)
        }

        private static var threads: Int {
            guard let folder = opendir("/proc/self/task") else { return 0 }
            defer { closedir(folder) }
            var count = 0
            while readdir(folder) != nil { count += 1 }
            return count
        }

        /// Sends three consecutive packets per source, so that none is on probation (RFC 3550 A.1).
        private func flood(_ peer: TestPeer, sources: Range<Int>, from first: Int = 1) throws {
            let type = try #require(peer.connection.sendParameters?.payloadType)
            for source in sources {
                for sequence in first..<first + 3 {
                    let header: [UInt8] = [0x80, UInt8(0x80 | type)] + big(sequence, 2) + big(1000, 4) + big(source, 4)
                    peer.connection.forge(rtp: header + [0x10, 0x01, 0x02, 0x03] + [UInt8](repeating: 7, count: 40))
                }
                // The network thread owns the sockets of both peers; letting it run avoids loss in the socket buffers.
                if source % 8 == 7 { letTheNetworkThreadRun() }
            }
        }

        @Test func inventedSourcesCostNoThreads() throws {
            try withPair { a, b in
                let before = Self.threads
                try flood(a, sources: 0x10000..<0x10000 + 400)
                let frames = b.frames
                #expect(b.waitForFrames(frames + 20), "the true stream is not shown any more")
                // Other threads of the process come and go; those of sources would stay.
                #expect(
                    eventually(seconds: 20) { Self.threads <= before + 40 },
                    "\(before) before, \(Self.threads) after")
            }
        }

        /// Like `inventedSourcesCostNoThreads`, by RTCP: 150 receiver reports per packet, each from another source.
        @Test func inventedReportersAreForgotten() throws {
            try withPair { a, b in
                for round in 0..<50 {
                    let reports: [UInt8] = (0..<150).flatMap { [0x80, 201, 0, 1] + big(0x20000 + round * 150 + $0, 4) }
                    a.connection.forge(rtcp: reports)
                    letTheNetworkThreadRun()
                }
                #expect(
                    eventually(seconds: 20) { b.connection.statistics().packetsRefused > 0 },
                    "every reporter got a place")
                let frames = b.frames
                #expect(b.waitForFrames(frames + 20))
            }
        }

        /// A service that restarts its output uses a new SSRC each time: each is selected, however many came before.
        @Test func aRestartedStreamIsShownHoweverManyCameBefore() throws {
            try withPair { a, b in
                let type = try #require(a.connection.sendParameters?.payloadType)
                try flood(a, sources: 0x10000..<0x10000 + 64)
                for restart in 0..<(Verification.isOn ? 12 : 4) {
                    let (width, height) = (64 + 16 * restart, 48)
                    let stream = try Pipeline(
                        description:
                            "videotestsrc is-live=true ! video/x-raw,width=\(width),height=\(height),framerate=30/1 ! "
                            + "vp8enc deadline=1 keyframe-max-dist=5 ! rtpvp8pay pt=\(type) ssrc=\(0x30000 + restart) ! "
                            + "identity name=out ! fakesink sync=false")
                    stream.child(named: "out")?.staticPad("src")?.addProbe(.buffer) { [weak a] item in
                        if case .buffer(let packet) = item { packet.withBytes { a?.connection.forge(rtp: Array($0)) } }
                        return .pass
                    }
                    stream.setState(.playing)
                    let isShown = b.seen.wait(.seconds(30)) { $0.size == (width, height) }
                    stream.setState(.null)
                    #expect(isShown, "the stream after restart \(restart) is not shown")
                }
                // The flowing stream replaces the one that stopped.
                #expect(b.seen.wait(.seconds(20)) { $0.size == (320, 180) }, "the first stream is not shown again")
            }
        }

        /// More SSRCs than have a place, and then a recording of the first one.
        @Test func aRecordingOfASourceThatLostItsPlaceIsRefused() throws {
            let accepted = Watched(0)
            var configuration = PeerConnectionConfiguration()
            configuration.loggers.rtp = Logger(isEnabled: { _ in true }) { entry in
                if entry.text.contains("received RTP, SSRC \(0x10000),") { accepted.change { $0 += 1 } }
            }
            let (a, b, path) = (try TestPeer(), try TestPeer(configuration), try LossyPath())
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b, over: path, mangleOffer: withoutSSRCs)
            try b.startMedia()
            try #require(a.waitForConnected() && b.waitForConnected())
            func received() -> Int { Int(b.connection.statistics().packetsReceived) }
            path.record(0x10000)
            try flood(a, sources: 0x10000..<0x10001)
            try #require(accepted.wait(.seconds(20)) { $0 == 3 } && path.recorded.count == 3)
            // As many others as there are places; the first one is the one that has been silent longest.
            for source in 1...40 {
                let before = received()
                var sequence = 1
                let isTaken = eventually(seconds: 20) {
                    try? flood(a, sources: 0x10000 + source..<0x10001 + source, from: sequence)
                    sequence += 3
                    return received() > before
                }
                try #require(isTaken)
            }
            let refused = b.connection.statistics().packetsRefused
            for packet in path.recorded { path.inject(packet, to: .b) }
            #expect(eventually(seconds: 20) { b.connection.statistics().packetsRefused >= refused + 3 })
            #expect(accepted.value == 3, "recorded packets were accepted")
        }

        /// One RTCP packet requests 17 retransmissions, again and again.
        @Test func retransmissionsHaveABudget() throws {
            try withPair { a, b in
                let last = Watched<(ssrc: Int, sequence: Int)?>(nil)
                b.connection.bin.staticPad("rtp_src")?.addProbe(.buffer) { item in
                    guard case .buffer(let packet) = item else { return .pass }
                    packet.withBytes { bytes in
                        func number(_ range: Range<Int>) -> Int { range.reduce(0) { $0 << 8 | Int(bytes[$1]) } }
                        if bytes.count >= 12 { last.change { $0 = (number(8..<12), number(2..<4)) } }
                    }
                    return .pass
                }
                for _ in 0..<200 {
                    _ = last.wait(.seconds(5)) { $0 != nil }
                    let (ssrc, sequence) = try #require(last.value)
                    let nack =
                        [0x81, 205, 0, 3] + big(1, 4) + big(ssrc, 4) + big((sequence - 16) & 0xffff, 2) + [0xff, 0xff]
                    b.connection.forge(rtcp: [0x80, 201, 0, 1] + big(1, 4) + nack)
                    letTheNetworkThreadRun()
                }
                let frames = b.frames
                #expect(b.waitForFrames(frames + 20))
                #expect(eventually(seconds: 20) { a.connection.statistics().rtp.retransmissions > 0 })
                let sent = Int(a.connection.statistics().rtp.retransmissions)
                // The budget is a quarter of 1.5 Mbit/s for two seconds, plus the duration of the test.
                measure("retransmissions of \(200 * 17)", Double(sent), atMost: 400, unit: "packets")
                #expect(sent < 200 * 17 / 2)
            }
        }
    }
}
