// The demo's driver: runs the main pipeline as an application would, changes the prompt half-way, and keeps frames from
// before and after the element.
//
//   demo [--base-url URL] [--seconds N] [--output FOLDER] [--show]
//
// demo.sh compiles it against the package's module map of GStreamer. Like any application, it knows the element by its
// properties only, and takes its own measurements on frames.

import CGStreamer
import Glibc
import Synchronization

// MARK: Options

struct Options {
    var baseURL: String?
    var seconds = 8.0
    var output = "demo"
    var show = false
    let prompts = ["Lego World", "Cyberpunk city"]

    init(arguments: [String]) {
        var rest = arguments.dropFirst()
        while let option = rest.popFirst() {
            switch option {
            case "--base-url": baseURL = rest.popFirst()
            case "--seconds": seconds = rest.popFirst().flatMap(Double.init) ?? seconds
            case "--output": output = rest.popFirst() ?? output
            case "--show": show = true
            default: stop("unknown option \(option)")
            }
        }
    }
}

func stop(_ why: String) -> Never {
    let line = "demo: \(why)\n"
    write(STDERR_FILENO, line, line.utf8.count)
    exit(1)
}

// MARK: Frames

/// A frame, scaled so that some seconds of frames fit into memory, with a thumbnail of its brightness for comparisons.
struct Frame {
    static let width = 640
    static let height = 352
    static let cell = 8

    /// The monotonic time at which the frame passed, in seconds.
    let time: Double
    var pixels: [UInt8]
    let thumbnail: [Float]

    init(time: Double, pixels: [UInt8]) {
        self.time = time
        self.pixels = pixels
        let columns = Frame.width / Frame.cell
        let rows = Frame.height / Frame.cell
        var cells = [Float](repeating: 0, count: columns * rows)
        guard pixels.count >= Frame.width * Frame.height * 3 else {
            thumbnail = cells
            return
        }
        // Every second pixel of every second row is enough for a mean.
        for y in stride(from: 0, to: Frame.height, by: 2) {
            for x in stride(from: 0, to: Frame.width, by: 2) {
                let at = (y * Frame.width + x) * 3
                cells[y / Frame.cell * columns + x / Frame.cell] +=
                    0.30 * Float(pixels[at]) + 0.59 * Float(pixels[at + 1]) + 0.11 * Float(pixels[at + 2])
            }
        }
        let mean = cells.reduce(0, +) / Float(cells.count)
        let spread = cells.reduce(0) { $0 + ($1 - mean) * ($1 - mean) }.squareRoot()
        thumbnail = cells.map { ($0 - mean) / max(spread, 1) }
    }

    /// The frame has a single colour, as the output has before the first transformed frame.
    var isBlank: Bool { !thumbnail.contains { abs($0) > 0.002 } }

    /// Returns the correlation of the brightness: 1 for equal frames, 0 for unrelated ones.
    func likeness(to other: Frame) -> Float {
        zip(thumbnail, other.thumbnail).reduce(0) { $0 + $1.0 * $1.1 }
    }
}

/// Frames from before and after the element, which two streaming threads write.
final class FrameHistory: Sendable {
    struct State {
        var before: [Frame] = []
        var after: [Frame] = []
        var firstTransformed: Double?
        var returned = 0
        var pairs: [(before: Frame, after: Frame)] = []
    }
    let state = Mutex(State())

    /// The longest latency that the search for the original of a transformed frame covers, in seconds.
    static let memory = 3.0
    /// The original passes a queue and a scaler of its own, and may therefore arrive later than its transformed frame.
    static let slack = 0.02

    func addBefore(_ frame: Frame) {
        state.withLock { state in
            state.before.append(frame)
            state.before.removeAll { $0.time < frame.time - FrameHistory.memory - 1 }
        }
    }

    func addAfter(_ frame: Frame) {
        guard !frame.isBlank else { return }
        state.withLock { state in
            state.firstTransformed = state.firstTransformed ?? frame.time
            state.returned += 1
            state.after.append(frame)
            // Keeps the pixels of the newest frame only, and the thumbnails of some seconds.
            if state.after.count > 1 { state.after[state.after.count - 2].pixels = [] }
            state.after.removeAll { $0.time < frame.time - FrameHistory.memory }
        }
    }

    /// Keeps the newest transformed frame with its original, which is the most similar one of the frames that passed
    /// about one latency earlier. A look may invert the brightness, so an inverse frame counts as similar too.
    func keepPair(latency: Double) {
        state.withLock { state in
            guard let after = state.after.last else { return }
            let near = state.before.filter { abs(after.time - latency - $0.time) <= 0.12 }
            let best = near.max { abs($0.likeness(to: after)) < abs($1.likeness(to: after)) }
            guard let best = best ?? state.before.last else { return }
            state.pairs.append((best, after))
        }
    }

    /// Returns the sorted latencies, in seconds, of the transformed frames in memory.
    func latencies() -> [Double] {
        state.withLock { state in
            state.after.compactMap { after in
                let earlier = state.before.filter {
                    $0.time <= after.time + FrameHistory.slack && $0.time > after.time - FrameHistory.memory
                }
                let best = earlier.max { $0.likeness(to: after) < $1.likeness(to: after) }
                guard let best, best.likeness(to: after) > 0.7 else { return nil }
                return max(0, after.time - best.time)
            }.sorted()
        }
    }
}

func now() -> Double { Double(g_get_monotonic_time()) / 1_000_000 }

// MARK: GStreamer

typealias Element = UnsafeMutablePointer<GstElement>

func launch(_ description: String) -> Element {
    var error: UnsafeMutablePointer<GError>?
    guard let element = gst_parse_launch(description, &error), error == nil else {
        stop(error.map { String(cString: $0.pointee.message) } ?? "cannot build the pipeline")
    }
    return element
}

func child(_ name: String, of pipeline: Element) -> Element {
    let bin = UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self)
    guard let element = gst_bin_get_by_name(bin, name) else { stop("the pipeline has no \(name)") }
    return element
}

/// Calls `handler` for each buffer that reaches an element's sink pad, on its streaming thread.
func watch(_ element: Element, _ handler: @escaping @Sendable (Frame) -> Void) {
    final class Box: Sendable {
        let handler: @Sendable (Frame) -> Void
        init(_ handler: @escaping @Sendable (Frame) -> Void) { self.handler = handler }
    }
    guard let pad = gst_element_get_static_pad(element, "sink") else { stop("no sink pad") }
    // The box lives as long as the process: the pad never releases it.
    let box = Unmanaged.passRetained(Box(handler))
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        { _, info, data in
            guard let data, let buffer = gst_pad_probe_info_get_buffer(info) else { return GST_PAD_PROBE_OK }
            let size = gst_buffer_get_size(buffer)
            let pixels = [UInt8](unsafeUninitializedCapacity: Int(size)) { space, count in
                count = Int(gst_buffer_extract(buffer, 0, space.baseAddress, size))
            }
            Unmanaged<Box>.fromOpaque(data).takeUnretainedValue().handler(Frame(time: now(), pixels: pixels))
            return GST_PAD_PROBE_OK
        }, box.toOpaque(), nil)
    gst_object_unref(pad)
}

/// Waits for the end of stream (true) or the timeout (false). An error ends the program with its message.
func run(_ pipeline: Element, for seconds: Double) -> Bool {
    guard let bus = gst_element_get_bus(pipeline) else { stop("no bus") }
    defer { gst_object_unref(bus) }
    let kinds = GstMessageType(rawValue: GST_MESSAGE_ERROR.rawValue | GST_MESSAGE_EOS.rawValue)
    guard let message = gst_bus_timed_pop_filtered(bus, GstClockTime(max(0, seconds) * 1e9), kinds) else {
        return false
    }
    defer { gst_message_unref(message) }
    guard message.pointee.type == GST_MESSAGE_ERROR else { return true }
    var error: UnsafeMutablePointer<GError>?
    var detail: UnsafeMutablePointer<CChar>?
    gst_message_parse_error(message, &error, &detail)
    stop(
        (error.map { String(cString: $0.pointee.message) } ?? "error") + "\n"
            + (detail.map { String(cString: $0) } ?? ""))
}

/// Returns the numeric fields of the element's `stats` by name.
func statistics(of element: Element) -> [String: Double] {
    var value = GValue()
    g_value_init(&value, gst_structure_get_type())
    defer { g_value_unset(&value) }
    let object = UnsafeMutableRawPointer(element).assumingMemoryBound(to: GObject.self)
    g_object_get_property(object, "stats", &value)
    guard let structure = gst_value_get_structure(&value) else { return [:] }
    var numbers: [String: Double] = [:]
    for index in 0..<gst_structure_n_fields(structure) {
        guard let name = gst_structure_nth_field_name(structure, UInt32(index)),
            let field = gst_structure_get_value(structure, name)
        else { continue }
        var number = GValue()
        g_value_init(&number, decart_type_double())
        if g_value_type_transformable(field.pointee.g_type, number.g_type) != 0, g_value_transform(field, &number) != 0
        {
            numbers[String(cString: name)] = g_value_get_double(&number)
        }
        g_value_unset(&number)
    }
    return numbers
}

// MARK: The demo

func quoted(_ text: String) -> String {
    "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
}

func isInstalled(_ element: String) -> Bool {
    guard let factory = gst_element_factory_find(element) else { return false }
    gst_object_unref(UnsafeMutableRawPointer(factory))
    return true
}

/// The main pipeline. The camera is a moving test pattern with a clock in it, so that no two frames are equal.
func mainPipeline(_ options: Options) -> String {
    let clock =
        isInstalled("timeoverlay")
        ? "! timeoverlay font-desc=\"Sans 48\" halignment=center valignment=center" : ""
    let scaled =
        "queue leaky=downstream max-size-buffers=4 ! videoscale ! videoconvert"
        + " ! video/x-raw,format=RGB,width=\(Frame.width),height=\(Frame.height),pixel-aspect-ratio=1/1"
    let service = options.baseURL.map { "base-url=\(quoted($0)) api-key=demo" } ?? ""
    let end =
        options.show
        ? "videoconvert ! autovideosink"
        : "videoconvert ! vp8enc deadline=1 cpu-used=-12 threads=1 end-usage=cbr target-bitrate=2500000"
            + " keyframe-max-dist=50 ! webmmux ! filesink location=\(quoted(options.output + "/transformed.webm"))"
    return """
        videotestsrc name=camera is-live=true pattern=smpte horizontal-speed=8
            ! video/x-raw,width=1280,height=704,framerate=22/1 \(clock) ! tee name=original
        original. ! \(scaled) ! fakesink name=before sync=false async=false
        original. ! queue ! decarttransform name=decart \(service) prompt=\(quoted(options.prompts[0]))
            ! tee name=transformed
        transformed. ! \(scaled) ! fakesink name=after sync=false async=false
        transformed. ! queue ! \(end)
        """
}

/// Rows of "original | transformed" as one PNG.
func writeImage(_ pairs: [(before: Frame, after: Frame)], prompts: [String], to path: String) {
    let gap = 8
    let width = 2 * Frame.width + gap
    let height = pairs.count * (Frame.height + gap) - gap
    var canvas = [UInt8](repeating: 255, count: width * height * 3)
    let row = Frame.width * 3
    for (index, pair) in pairs.enumerated() {
        for (column, frame) in [pair.before, pair.after].enumerated()
        where frame.pixels.count >= row * Frame.height {
            for y in 0..<Frame.height {
                let from = y * row
                let to = ((index * (Frame.height + gap) + y) * width + column * (Frame.width + gap)) * 3
                canvas.replaceSubrange(to..<to + row, with: frame.pixels[from..<from + row])
            }
        }
    }
    let raw = path + ".rgb"
    guard let file = fopen(raw, "wb") else { stop("cannot write \(raw)") }
    fwrite(canvas, 1, canvas.count, file)
    fclose(file)
    defer { unlink(raw) }
    var captions = ""
    if isInstalled("textoverlay") {
        for index in pairs.indices {
            for (column, text) in ["original", prompts[min(index, prompts.count - 1)]].enumerated() {
                captions +=
                    " ! textoverlay text=\(quoted(text)) shaded-background=true font-desc=\"Sans 9\""
                    + " halignment=left valignment=top xpad=\(column * (Frame.width + gap) + 8)"
                    + " ypad=\(index * (Frame.height + gap) + 8)"
            }
        }
    }
    let pipeline = launch(
        "filesrc location=\(quoted(raw)) blocksize=\(canvas.count)"
            + " ! rawvideoparse format=rgb width=\(width) height=\(height)\(captions)"
            + " ! videoconvert ! video/x-raw,format=RGB ! pngenc snapshot=true ! filesink location=\(quoted(path))")
    gst_element_set_state(pipeline, GST_STATE_PLAYING)
    guard run(pipeline, for: 20) else { stop("writing \(path) took too long") }
    gst_element_set_state(pipeline, GST_STATE_NULL)
    gst_object_unref(pipeline)
}

func count(_ name: String, in numbers: [String: Double]) -> String? {
    numbers[name].flatMap { Int(exactly: $0) }.map(String.init)
}

/// Formats seconds as milliseconds.
func milliseconds(_ seconds: Double) -> String { "\(Int((seconds * 1000).rounded())) ms" }

func main() {
    let options = Options(arguments: CommandLine.arguments)
    gst_init(nil, nil)
    let history = FrameHistory()
    let pipeline = launch(mainPipeline(options))
    let decart = child("decart", of: pipeline)
    let camera = child("camera", of: pipeline)
    watch(child("before", of: pipeline)) { history.addBefore($0) }
    watch(child("after", of: pipeline)) { history.addAfter($0) }

    let started = now()
    gst_element_set_state(pipeline, GST_STATE_PLAYING)
    print("prompt: \(options.prompts[0])")
    if run(pipeline, for: options.seconds / 2) { stop("the stream ended early") }
    // Only the first prompt's look keeps the brightness, so the latency is measured on it.
    let latencies = history.latencies()
    let latency = latencies.isEmpty ? 0 : latencies[latencies.count / 2]
    history.keepPair(latency: latency)
    gst_util_set_object_arg(
        UnsafeMutableRawPointer(decart).assumingMemoryBound(to: GObject.self), "prompt", options.prompts[1])
    print("prompt: \(options.prompts[1])")
    if run(pipeline, for: options.seconds / 2) { stop("the stream ended early") }
    history.keepPair(latency: latency)

    let numbers = statistics(of: decart)
    // EOS goes through the element, so that the file gets its last frames and its index.
    gst_element_send_event(camera, gst_event_new_eos())
    if !run(pipeline, for: 10) { print("the pipeline did not end within 10 s after its source") }
    gst_element_set_state(pipeline, GST_STATE_NULL)
    gst_object_unref(camera)
    gst_object_unref(decart)
    gst_object_unref(pipeline)

    let (first, returned, pairs) = history.state.withLock { ($0.firstTransformed, $0.returned, $0.pairs) }
    guard let first, !pairs.isEmpty else { stop("no transformed frame came back in \(options.seconds) s") }
    print("first transformed frame:  \(milliseconds(first - started)) after the start")
    let phases = [
        ("connected", "connect-open-time"), ("upgraded", "connect-upgrade-time"),
        ("prompt accepted", "connect-ack-time"),
        ("ICE", "connect-ice-time"), ("DTLS", "connect-dtls-time"), ("first frame", "time-to-first-frame"),
    ].compactMap { name, field in
        numbers[field].flatMap { $0 < 0 ? nil : "\(name) \(milliseconds($0 / 1e9))" }
    }
    if !phases.isEmpty { print("  as the element reports: \(phases.joined(separator: ", "))") }
    print("frames sent:              \(count("frames-sent", in: numbers) ?? "not known")")
    print("frames returned:          \(count("frames-received", in: numbers) ?? String(returned))")
    if !latencies.isEmpty {
        print(
            "latency, in to out:       \(milliseconds(latency)) median, "
                + "\(milliseconds(latencies[latencies.count * 9 / 10])) p90 (measured on \(latencies.count) frames)")
    }
    if !options.show {
        writeImage(pairs, prompts: options.prompts, to: options.output + "/before-after.png")
    }
}

main()
