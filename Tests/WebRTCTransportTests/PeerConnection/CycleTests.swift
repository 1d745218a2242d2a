import CGStreamer
import GStreamerKit
import Glibc
import ICE
import Testing
import WebRTCTransport

/// Connects, streams and stops repeatedly. In a child process, because threads and files are counted per process.
extension Transport {
    @Suite(.timeLimit(.minutes(3)))
    struct CycleTests {
        private static let cycles = 50
        private static let isWorker = getenv("DECART_TEST_CYCLES") != nil

        @Test func leaveNothingBehind() throws {
            guard !Self.isWorker else {
                try work()
                return
            }
            let output = Watched<[String]>([])
            let worker = try ChildProcess(
                [
                    "/proc/self/exe", "--filter", "^WebRTCTransportTests[./].*CycleTests", "--testing-library",
                    "swift-testing",
                ],
                environment: ["DECART_TEST_CYCLES": "1", "GST_TRACERS": "leaks", "SWIFT_BACKTRACE": "enable=no"],
                mergingErrors: true)
            worker.readLines { line in
                let text = String(decoding: line, as: UTF8.self)
                output.change { $0.append(text) }
            }
            let status = worker.end(within: .seconds(150))
            let text = output.value.joined(separator: "\n")
            #expect(status == 0, "\(text)")
            #expect(text.contains("after \(Self.cycles) cycles"), "the worker did not get to its end: \(text)")
        }

        private func work() throws {
            GStreamerRuntime.initialise()
            // libvpx, Dispatch and the heap's arenas reach a steady state within the first cycles.
            let witness = try Element(factory: "fakesink")
            #expect(Footprint.now.objects["GstFakeSink"] == 1, "the tracer does not count")
            for _ in 0..<10 { try cycle() }
            try restartInARow()
            let before = Footprint.now
            for _ in 10..<Self.cycles { try cycle() }
            var after = Footprint.now
            // The last agent's sockets close a moment after the agent is freed.
            _ = settles(within: .seconds(3)) {
                after = Footprint.now
                return after.files <= before.files && after.threads <= before.threads
            }
            print("before \(before)\nafter \(Self.cycles) cycles \(after)")
            #expect(after.files <= before.files)
            #expect(after.threads <= before.threads)
            #expect(after.kilobytes - before.kilobytes < 8 * 1024)
            // Only the witness and its pad are left: no object, event, buffer or caps of the peers.
            #expect(after.objects == ["GstFakeSink": 1, "GstPad": 1])
            #expect(witness.name.hasPrefix("fakesink"))
        }

        /// 20 ICE restarts of one connection: each leaves one ICE session, as before.
        private func restartInARow() throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b)
            #expect(a.waitForConnected() && b.waitForConnected())
            var before = Footprint()
            for count in 1...22 {
                let answer = try b.connection.createAnswer(to: a.connection.createOffer(restartsICE: true))
                try a.connection.setAnswer(answer)
                for peer in [a, b] { #expect(peer.seen.wait(.seconds(10)) { $0.restarts.count == count }) }
                if count == 2 { before = settled(below: nil) }
            }
            let after = settled(below: before)
            print("20 ICE restarts: before \(before.files) files, after \(after.files)")
            #expect(after.files <= before.files && after.threads <= before.threads)
            #expect(after.objects == before.objects)
        }

        /// The footprint once the session before a restart has been closed, which takes 2 s.
        private func settled(below bound: Footprint?) -> Footprint {
            var (last, lowest) = (Footprint.now, Footprint.now)
            _ = settles(within: .seconds(4)) {
                last = .now
                if last.files < lowest.files { lowest = last }
                return bound.map { last.files <= $0.files && last.threads <= $0.threads } ?? false
            }
            return lowest.files < last.files ? lowest : last
        }

        private func cycle() throws {
            let a = try TestPeer()
            let b = try TestPeer()
            defer {
                a.stop()
                b.stop()
            }
            try join(a, b)
            try a.startMedia()
            try b.startMedia()
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

    /// Live objects per GType, from GStreamer's "leaks" tracer.
    private static func liveObjects() -> [String: Int] {
        var counts: [String: Int] = [:]
        var item = gst_tracing_get_active_tracers()
        while let node = item {
            defer { item = node.pointee.next }
            guard let tracer = node.pointee.data else { continue }
            let type = decart_type_of_instance(tracer)
            let signal = g_signal_lookup("get-live-objects", type)
            guard signal != 0 else { continue }
            var instance = GValue()
            g_value_init(&instance, type)
            g_value_set_object(&instance, tracer)
            var result = GValue()
            g_value_init(&result, decart_type_structure())
            g_signal_emitv(&instance, signal, 0, &result)
            if let structure = gst_value_get_structure(&result),
                let list = gst_structure_get_value(structure, "live-objects-list")
            {
                for index in 0..<gst_value_list_get_size(list) {
                    guard let entry = gst_value_list_get_value(list, index).flatMap({ gst_value_get_structure($0) }),
                        let object = gst_structure_get_value(entry, "object")
                    else { continue }
                    counts[String(cString: g_type_name(decart_type_of_value(object))), default: 0] += 1
                }
            }
            // GStreamer 1.22 stores the objects without references of their own: freeing the structure would drop ours.
            g_value_unset(&instance)
        }
        return counts
    }

    var description: String {
        let held = objects.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        return "\(files) files, \(threads) threads, \(kilobytes) kB, objects: \(held)"
    }
}
