import CGIO
import CGStreamer
import GStreamerKit
import Glibc
import ICE
import TestSupport
import Testing
import WebRTCTransport

/// Connects, streams and stops repeatedly. In a child process, because threads and files are counted per process.
extension Transport {
    @Suite(.timeLimit(.minutes(3)))
    struct CycleTests {
        /// libvpx, Dispatch and the heap's arenas reach a steady state within the first cycles.
        private static let warmUp = Verification.isOn ? 10 : 4
        private static let cycles = Verification.isOn ? 50 : 12
        private static let restarts = Verification.isOn ? 22 : 6
        private static let isWorker = getenv("DECART_TEST_CYCLES") != nil

        @Test func leaveNothingBehind() throws {
            guard !Self.isWorker else {
                try work()
                return
            }
            let (status, output) = try runInChild(
                "^WebRTCTransportTests[./].*CycleTests",
                environment: ["DECART_TEST_CYCLES": "1", "GST_TRACERS": "leaks"], within: .seconds(150))
            let text = output.joined(separator: "\n")
            #expect(status == 0, "\(text)")
            #expect(text.contains("after \(Self.cycles) cycles"), "the worker did not get to its end: \(text)")
        }

        private func work() throws {
            GStreamerRuntime.initialise()
            let witness = try Element(factory: "fakesink")
            #expect(Footprint.now.objects["GstFakeSink"] == 1, "the tracer does not count")
            for _ in 0..<Self.warmUp { try cycle() }
            try restartInARow()
            // Only the witness and its pad: no object, event, buffer or caps of the peers.
            let nothing = ["GstFakeSink": 1, "GstPad": 1]
            // The last agent's sockets close a moment after the agent is freed.
            let before = lowest { $0.objects == nothing }
            for _ in Self.warmUp..<Self.cycles { try cycle() }
            let after = awaited { $0.isWithin(before) && $0.objects == nothing }
            print("before \(before)\nafter \(Self.cycles) cycles \(after)")
            #expect(after.files <= before.files)
            #expect(after.threads <= before.threads)
            measure(
                "growth in \(Self.cycles - Self.warmUp) cycles", Double(after.kilobytes - before.kilobytes),
                atMost: 8 * 1024, unit: "KiB")
            #expect(after.objects == nothing)
            #expect(witness.name.hasPrefix("fakesink"))
        }

        /// ICE restarts of one connection: each leaves one ICE session, as before.
        private func restartInARow() throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            #expect(a.waitForConnected() && b.waitForConnected())
            var before = Footprint()
            for count in 1...Self.restarts {
                try renegotiate(a, b, restartsICE: true)
                for peer in [a, b] { #expect(peer.seen.wait(.seconds(20)) { $0.restarts.count == count }) }
                // The session before a restart is closed after 2 s.
                if count == 2 { before = lowest() }
            }
            let after = awaited { $0.isWithin(before) && $0.objects == before.objects }
            print("\(Self.restarts - 2) ICE restarts: before \(before.files) files, after \(after.files)")
            #expect(after.files <= before.files && after.threads <= before.threads)
            #expect(after.objects == before.objects)
        }

        /// The footprint with the fewest files in the next 3 s, or as soon as `isLowest`.
        private func lowest(or isLowest: (Footprint) -> Bool = { _ in false }) -> Footprint {
            var lowest = Footprint.now
            _ = eventually(seconds: 3) {
                let now = Footprint.now
                if now.files <= lowest.files { lowest = now }
                return isLowest(now)
            }
            return lowest
        }

        /// The footprint once it has this property, or after a long time.
        private func awaited(_ isExpected: (Footprint) -> Bool) -> Footprint {
            var last = Footprint.now
            _ = eventually(seconds: 40) {
                last = .now
                return isExpected(last)
            }
            return last
        }

        private func cycle() throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            try TestPeer.startMedia(a, b)
            #expect(a.waitForFrames(5) && b.waitForFrames(5))
        }
    }
}

/// Resources that this process holds.
private struct Footprint: CustomStringConvertible {
    var files = 0
    var threads = 0
    var kilobytes = 0
    var objects: [String: Int] = [:]

    func isWithin(_ bound: Footprint) -> Bool { files <= bound.files && threads <= bound.threads }

    static var now: Footprint {
        letTheNetworkThreadRun()
        var footprint = Footprint()
        footprint.files = entries("/proc/self/fd")
        footprint.threads = entries("/proc/self/task")
        // Returns free memory to the system: how the arenas of many threads fill up is random, by up to 10 MiB.
        if let trim = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(trim, to: (@convention(c) (Int) -> CInt).self)(0) }
        if let file = fopen("/proc/self/statm", "r") {
            var (size, resident) = (0, 0)
            withUnsafeMutablePointer(to: &size) { size in
                withUnsafeMutablePointer(to: &resident) { resident in
                    withVaList([size, resident]) { _ = vfscanf(file, "%ld %ld", $0) }
                }
            }
            fclose(file)
            footprint.kilobytes = resident * Int(getpagesize()) / 1024
        }
        footprint.objects = liveObjects()
        return footprint
    }

    private static func entries(_ directory: String) -> Int {
        guard let opened = opendir(directory) else { return 0 }
        defer { closedir(opened) }
        var count = 0
        while readdir(opened) != nil { count += 1 }
        return count
    }

    var description: String {
        let held = objects.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return "\(files) files, \(threads) threads, \(kilobytes) kB, objects: \(held)"
    }
}
