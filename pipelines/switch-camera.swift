// The driver of switch-camera.sh: an application that changes cameras while it plays. It knows the element by its
// properties and signals only.
//
//   switch-camera URL PREFIX [--cameras]      leaves PREFIX-1.png to PREFIX-3.png
//
// Compiled together with the virtual cameras of the tests, against the package's module map of GStreamer.

import CGStreamer
import Glibc
import Synchronization

typealias Element = UnsafeMutablePointer<GstElement>

func stop(_ why: String) -> Never {
    let line = "switch-camera: \(why)\n"
    write(STDERR_FILENO, line, line.utf8.count)
    exit(1)
}

/// The times at which the camera delivered frames, and the last transformed frame. Streaming threads write both.
final class FrameLog: Sendable {
    // @unchecked: the buffer is only read, and its reference count is atomic.
    struct State: @unchecked Sendable {
        var sent: [Int64] = []
        var returned = 0
        var buffer: UnsafeMutablePointer<GstBuffer>?
    }
    let state = Mutex(State())

    func keep(_ buffer: UnsafeMutablePointer<GstBuffer>) {
        gst_mini_object_ref(UnsafeMutableRawPointer(buffer).assumingMemoryBound(to: GstMiniObject.self))
        let number = UInt(bitPattern: buffer)
        let old = state.withLock { state in
            defer {
                state.buffer = UnsafeMutablePointer(bitPattern: number)
                state.returned += 1
            }
            return UInt(bitPattern: state.buffer)
        }
        if let old = UnsafeMutablePointer<GstMiniObject>(bitPattern: old) { gst_mini_object_unref(old) }
    }
}

func watch(_ pad: UnsafeMutablePointer<GstPad>, _ log: FrameLog, _ probe: @escaping GstPadProbeCallback) {
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, probe, Unmanaged.passUnretained(log).toOpaque(), nil)
}

func text(_ element: Element, _ property: String) -> String {
    var value = GValue()
    g_object_get_property(UnsafeMutableRawPointer(element).assumingMemoryBound(to: GObject.self), property, &value)
    defer { g_value_unset(&value) }
    return g_value_get_string(&value).map { String(cString: $0) } ?? "none"
}

/// Emits `switch-camera` and returns the id of the next camera.
func switchCamera(_ element: Element) -> String? {
    var instance = GValue()
    var result = GValue()
    g_value_init(&instance, decart_type_of_instance(element))
    g_value_set_object(&instance, element)
    g_value_init(&result, decart_type_string())
    defer {
        g_value_unset(&instance)
        g_value_unset(&result)
    }
    g_signal_emitv(&instance, g_signal_lookup("switch-camera", decart_type_of_instance(element)), 0, &result)
    return g_value_get_string(&result).map { String(cString: $0) }
}

/// Lets the pipeline run for a number of seconds; an error ends the program.
func run(_ bus: UnsafeMutablePointer<GstBus>, seconds: Double) {
    let end = g_get_monotonic_time() + Int(seconds * 1e6)
    while case let left = end - g_get_monotonic_time(), left > 0 {
        guard let message = gst_bus_timed_pop_filtered(bus, UInt(left) * 1000, GST_MESSAGE_ERROR) else { return }
        var error: UnsafeMutablePointer<GError>?
        gst_message_parse_error(message, &error, nil)
        stop(error.map { String(cString: $0.pointee.message) } ?? "an error")
    }
}

func save(_ log: FrameLog, _ pad: UnsafeMutablePointer<GstPad>, to path: String) {
    let number = log.state.withLock { UInt(bitPattern: $0.buffer) }
    guard let buffer = UnsafeMutablePointer<GstBuffer>(bitPattern: number), let caps = gst_pad_get_current_caps(pad),
        let sample = gst_sample_new(buffer, caps, nil, nil), let wanted = gst_caps_from_string("image/png")
    else { stop("no frame came back") }
    guard let image = gst_video_convert_sample(sample, wanted, 5_000_000_000, nil),
        let bytes = gst_sample_get_buffer(image)
    else { stop("cannot convert the frame to PNG") }
    var map = GstMapInfo()
    gst_buffer_map(bytes, &map, GST_MAP_READ)
    guard let file = fopen(path, "wb") else { stop("cannot write \(path)") }
    fwrite(map.data, 1, Int(map.size), file)
    fclose(file)
    gst_buffer_unmap(bytes, &map)
}

/// Returns the longest time between two frames of the cameras since `start`, in milliseconds.
func longestGap(_ log: FrameLog, since start: Int64) -> Int64 {
    let times = log.state.withLock { $0.sent.filter { $0 >= start } }
    return (zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? 0) / 1000
}

// These closures are not in main(), where they would belong to the main actor: streaming threads call them.
func drive() {
    gst_init(nil, nil)
    let arguments = CommandLine.arguments
    guard arguments.count >= 3 else { stop("usage: switch-camera URL PREFIX [--cameras]") }
    if !arguments.contains("--cameras") {
        let caps = "video/x-raw,width=1280,height=720,framerate=30/1"
        VirtualCameras.set([
            VirtualCamera(name: "Front", id: "virtual:front", position: "front", caps: caps, pattern: "smpte100"),
            VirtualCamera(name: "Back", id: "virtual:back", position: "back", caps: caps, pattern: "smpte75"),
        ])
    }
    guard
        let pipeline = gst_parse_launch(
            "decartsrc name=camera mirror=auto base-url=\(arguments[1]) api-key=x prompt=\"Lego World\" ! fakesink name=out sync=true",
            nil),
        let camera = gst_bin_get_by_name(
            UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self), "camera"),
        let inside = gst_bin_get_by_name(
            UnsafeMutableRawPointer(camera).assumingMemoryBound(to: GstBin.self), "camera-tee"),
        let sent = gst_element_get_static_pad(inside, "sink"), let out = gst_element_get_static_pad(camera, "src"),
        let bus = gst_element_get_bus(pipeline)
    else { stop("cannot build the pipeline: is the plugin on the path?") }
    let log = FrameLog()
    watch(sent, log) { _, _, data in
        guard let data else { return GST_PAD_PROBE_OK }
        let time = Int64(g_get_monotonic_time())
        Unmanaged<FrameLog>.fromOpaque(data).takeUnretainedValue().state.withLock { $0.sent.append(time) }
        return GST_PAD_PROBE_OK
    }
    watch(out, log) { _, info, data in
        if let data, let buffer = gst_pad_probe_info_get_buffer(info) {
            Unmanaged<FrameLog>.fromOpaque(data).takeUnretainedValue().keep(buffer)
        }
        return GST_PAD_PROBE_OK
    }
    gst_element_set_state(pipeline, GST_STATE_PLAYING)
    run(bus, seconds: 6)
    let session = text(camera, "session-id")
    print("session \(session), \(text(camera, "current-device"))")
    save(log, out, to: "\(arguments[2])-1.png")
    for number in 2...3 {
        let start = Int64(g_get_monotonic_time())
        guard let next = switchCamera(camera) else { stop("there is no other camera") }
        run(bus, seconds: 4)
        save(log, out, to: "\(arguments[2])-\(number).png")
        print(
            "session \(text(camera, "session-id")), \(next), \(longestGap(log, since: start)) ms between two pictures at most"
        )
        guard text(camera, "session-id") == session, text(camera, "current-device") == next else {
            stop("the session is another one, or the camera is not the expected one")
        }
    }
    gst_element_set_state(pipeline, GST_STATE_NULL)
}

@main enum Main {
    static func main() { drive() }
}
