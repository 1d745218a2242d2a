// A live view that takes commands while it runs. live.py and live.c are the same program.
//
//     source pipelines/env.sh
//     pipelines/examples/build.sh          # compiles it against GStreamer with the module map in Sources/CGStreamer
//     .build/examples/live-swift [--sink DESCRIPTION] SOURCE-DESCRIPTION
//
//     .build/examples/live-swift 'v4l2src ! decarttransform name=decart prompt="Lego World"'
//
// One element of the source must be named decart. Commands, one a line on standard input:
//
//     prompt TEXT    send a prompt, and print whether the service accepted it
//     camera         switch to the other camera (decartsrc)
//     record FILE    record to a WebM file from the next frame on; a recording that runs ends with the frame before
//     stop           end the recording
//     query          print the state, the position, the number of frames and the current recording
//     quit           end the stream and with it the recording (so do Ctrl-C and the end of the input)

import CGStreamer
import Dispatch
import Glibc
import Synchronization

// MARK: Access to C

typealias Element = UnsafeMutablePointer<GstElement>
typealias Pad = UnsafeMutablePointer<GstPad>

extension UnsafeMutablePointer {
    /// The casts that are macros in C: GST_BIN(element), G_OBJECT(element).
    func cast<Other>(to type: Other.Type = Other.self) -> UnsafeMutablePointer<Other> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: Other.self)
    }
}

/// Prints and flushes a line, so that a reader behind a pipe gets it at once.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

func stop(_ why: String) -> Never {
    say("live: \(why)")
    exit(1)
}

func set(_ element: Element, _ property: String, _ text: String) {
    gst_util_set_object_arg(element.cast(), property, text)
}

func field(_ structure: UnsafePointer<GstStructure>?, _ name: String) -> String {
    structure.flatMap { gst_structure_get_string($0, name) }.map { String(cString: $0) } ?? ""
}

/// Emits an action signal with a list of values, because Swift cannot call functions with varargs.
func emit(_ element: Element, _ signal: String, _ text: String? = nil, result: GType) -> GValue {
    var values = [GValue](repeating: GValue(), count: text == nil ? 1 : 3)
    g_value_init(&values[0], decart_type_of_instance(element))
    g_value_set_object(&values[0], element)
    if let text {
        g_value_init(&values[1], decart_type_string())
        g_value_set_string(&values[1], text)
        g_value_init(&values[2], decart_type_boolean())
    }
    defer { for index in values.indices { g_value_unset(&values[index]) } }
    var output = GValue()
    g_value_init(&output, result)
    g_signal_emitv(&values, g_signal_lookup(signal, decart_type_of_instance(element)), 0, &output)
    return output
}

// MARK: The recording

/// The view may be late, but must not block the recording: its queue drops frames, the recording's queue drops none.
let view = "queue leaky=downstream max-size-buffers=0 max-size-bytes=0 max-size-time=1000000000"

/// One file, and the branch of the tee that writes it. Frames are counted from 1, over all recordings.
// @unchecked: the lock in `Live` guards the fields that change.
final class Recording: @unchecked Sendable {
    /// async=false: a sink that joins a playing pipeline must not make it wait for the sink's first frame.
    private static let branch =
        "queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000 ! videoconvert"
        + " ! vp8enc deadline=1 cpu-used=8 target-bitrate=0 keyframe-max-dist=60 ! webmmux offset-to-zero=true"
        + " ! filesink name=file async=false"

    let path: String
    let bin: Element
    let sink: Pad
    /// The pad of the tee, while it is linked.
    var pad: Pad?
    var first = 0
    var last = 0

    /// Nil when the file cannot be written.
    init?(_ path: String) {
        guard let made = gst_parse_bin_from_description(Self.branch, 1, nil),
            let file = gst_bin_get_by_name(made.cast(), "file"),
            let pad = gst_element_get_static_pad(made.cast(), "sink")
        else { return nil }
        self.path = path
        bin = made.cast()
        sink = pad
        gst_object_ref_sink(bin)
        // The location is a property, not part of the description, because a file name may contain any character.
        set(file, "location", path)
        gst_object_unref(file)
        // A pipeline posts EOS only once all of its sinks have; message-forward makes this bin post its own.
        set(bin, "message-forward", "true")
        // Opens the file before the branch is part of the pipeline, which a failure therefore does not stop.
        guard gst_element_set_state(bin, GST_STATE_READY) != GST_STATE_CHANGE_FAILURE else { return nil }
    }

    deinit {
        gst_element_set_state(bin, GST_STATE_NULL)
        if let pad { gst_object_unref(pad) }
        gst_object_unref(sink)
        gst_object_unref(bin)
    }
}

// MARK: The program

// @unchecked: the mutex guards the state that the streaming thread uses too; the rest belongs to the main thread.
final class Live: @unchecked Sendable {
    struct Switching {
        var frames = 0
        /// The recording that the commands requested.
        var wanted: Recording?
        /// The one that gets the frames.
        var current: Recording?
    }
    let switching = Mutex(Switching())
    let pipeline: Element
    let decart: Element
    let tee: Element
    let loop = g_main_loop_new(nil, 0)
    var recordings: [Recording] = []
    var state = ""
    var failed = false

    init(source: String, sink: String) {
        var error: UnsafeMutablePointer<GError>?
        let parsed = gst_parse_launch("\(source) ! tee name=outputs outputs. ! \(view) ! \(sink)", &error)
        if let error { stop(String(cString: error.pointee.message)) }
        guard let parsed, let tee = gst_bin_get_by_name(parsed.cast(), "outputs") else { stop("no pipeline") }
        guard let decart = gst_bin_get_by_name(parsed.cast(), "decart") else { stop("no element is named decart") }
        (pipeline, self.tee, self.decart) = (parsed, tee, decart)
    }

    /// The pointer that C passes to the callbacks.
    var pointer: gpointer { Unmanaged.passUnretained(self).toOpaque() }
    static func from(_ pointer: gpointer?) -> Live? { pointer.map { Unmanaged.fromOpaque($0).takeUnretainedValue() } }

    // MARK: The streaming thread

    /// Called before any branch gets the frame. A switch here loses no frame.
    func receiveFrame() {
        switching.withLock { state in
            if state.wanted !== state.current { change(&state) }
            state.frames += 1
            state.current?.last = state.frames
        }
    }

    private func change(_ state: inout Switching) {
        let old = state.current
        state.current = state.wanted
        if let new = state.current {
            new.first = state.frames + 1
            new.pad = gst_element_request_pad_simple(tee, "src_%u")
            gst_pad_link(new.pad, new.sink)
        }
        if let old, let pad = old.pad {
            gst_pad_unlink(pad, old.sink)
            gst_element_release_request_pad(tee, pad)
            // Its queue passes this on behind the last frame: the file is completed while the stream goes on.
            gst_pad_send_event(old.sink, gst_event_new_eos())
        }
    }

    // MARK: Commands, on the main thread

    func command(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1)
        let rest = words.count > 1 ? String(words[1]) : ""
        switch words.first {
        case "record" where !rest.isEmpty: record(rest)
        case "stop": want(nil)
        case "prompt":
            // The element posts the result as the message decart-prompt-result with the same id.
            let request = emit(decart, "set-prompt", rest, result: decart_type_uint64())
            if withUnsafePointer(to: request, g_value_get_uint64) == 0 { say("prompt: not sent") }
        case "camera": camera()
        case "query": query()
        case "quit": quit()
        case nil: break
        default: say("commands: prompt TEXT, camera, record FILE, stop, query, quit")
        }
    }

    private func record(_ path: String) {
        guard !recordings.contains(where: { $0.path == path }) else { return say("record: \(path) is being written") }
        guard let recording = Recording(path) else { return say("record: cannot write \(path)") }
        recordings.append(recording)
        gst_bin_add(pipeline.cast(), recording.bin)
        gst_element_sync_state_with_parent(recording.bin)
        want(recording)
    }

    private func want(_ recording: Recording?) {
        let unused = switching.withLock { state in
            defer { state.wanted = recording }
            return state.wanted === state.current ? nil : state.wanted
        }
        if let unused { finished(unused) }
    }

    private func finished(_ recording: Recording) {
        recordings.removeAll { $0 === recording }
        gst_element_set_state(recording.bin, GST_STATE_NULL)
        gst_bin_remove(pipeline.cast(), recording.bin)
        guard recording.first > 0 else { return say("recorded \(recording.path): no frame") }
        let count = recording.last - recording.first + 1
        say("recorded \(recording.path): frames \(recording.first) to \(recording.last), \(count) in all")
    }

    private func camera() {
        guard g_signal_lookup("switch-camera", decart_type_of_instance(decart)) != 0 else {
            return say("camera: this element has none to switch")
        }
        var device = emit(decart, "switch-camera", result: decart_type_string())
        say("camera: \(g_value_get_string(&device).map { String(cString: $0) } ?? "there is no other")")
        g_value_unset(&device)
    }

    private func query() {
        var position: gint64 = 0
        gst_element_query_position(pipeline, GST_FORMAT_TIME, &position)
        var value = GValue()
        g_object_get_property(decart.cast(), "connection-state", &value)
        let type = g_type_class_peek(value.g_type)?.assumingMemoryBound(to: GEnumClass.self)
        let name = g_enum_get_value(type, g_value_get_enum(&value))
        let state = name.map { String(cString: $0.pointee.value_nick) } ?? ""
        let (frames, path) = switching.withLock { ($0.frames, $0.current?.path ?? "off") }
        let hundredths = (position + 5_000_000) / 10_000_000
        let seconds = "\(hundredths / 100).\(hundredths % 100 / 10)\(hundredths % 10)"
        say("query: \(state), position \(seconds) s, \(frames) frames, recording \(path)")
    }

    func quit() {
        // EOS, not a change of state: it follows the last frame through the pipeline, and files are completed.
        gst_element_send_event(pipeline, gst_event_new_eos())
        g_timeout_add_seconds(
            10,
            { live in
                Live.from(live).map { g_main_loop_quit($0.loop) }
                return 0
            }, pointer)
    }

    // MARK: Messages, on the main thread

    func receive(_ message: UnsafeMutablePointer<GstMessage>) {
        var error: UnsafeMutablePointer<GError>?
        defer { g_clear_error(&error) }
        switch message.pointee.type {
        case GST_MESSAGE_EOS: g_main_loop_quit(loop)
        case GST_MESSAGE_ERROR:
            gst_message_parse_error(message, &error, nil)
            error.map { say("error: \(String(cString: $0.pointee.message))") }
            failed = true
            g_main_loop_quit(loop)
        case GST_MESSAGE_WARNING:
            gst_message_parse_warning(message, &error, nil)
            error.map { say("warning: \(String(cString: $0.pointee.message))") }
        case GST_MESSAGE_ELEMENT: receive(gst_message_get_structure(message), from: message.pointee.src)
        default: break
        }
    }

    private func receive(_ structure: UnsafePointer<GstStructure>?, from source: UnsafeMutablePointer<GstObject>?) {
        switch structure.flatMap({ gst_structure_get_name($0) }).map({ String(cString: $0) }) {
        case "decart-state":
            // The message has more fields than the state, and is posted whenever any of them changes.
            guard state != field(structure, "state") else { return }
            state = field(structure, "state")
            say("state: \(state)")
        case "decart-prompt-result":
            var accepted: gboolean = 0
            var milliseconds: guint = 0
            gst_structure_get_boolean(structure, "accepted", &accepted)
            gst_structure_get_uint(structure, "milliseconds", &milliseconds)
            if accepted != 0 {
                say("prompt: accepted after \(milliseconds) ms: \(field(structure, "text"))")
            } else {
                say("prompt: refused: \(field(structure, "error"))")
            }
        case "GstBinForwarded":
            let inner = g_value_get_boxed(gst_structure_get_value(structure, "message"))
            guard inner?.assumingMemoryBound(to: GstMessage.self).pointee.type == GST_MESSAGE_EOS else { return }
            if let recording = recordings.first(where: { source == $0.bin.cast() }) { finished(recording) }
        default: break
        }
    }

    // MARK: Run

    func run() {
        let pad = gst_element_get_static_pad(tee, "sink")
        gst_pad_add_probe(
            pad, GST_PAD_PROBE_TYPE_BUFFER,
            { _, _, live in
                Live.from(live)?.receiveFrame()
                return GST_PAD_PROBE_OK
            }, pointer, nil)
        gst_object_unref(pad)
        let bus = gst_element_get_bus(pipeline)
        gst_bus_add_watch(
            bus,
            { _, message, live in
                if let message { Live.from(live)?.receive(message) }
                return 1
            }, pointer)
        g_io_add_watch(
            g_io_channel_unix_new(0), GIOCondition(rawValue: G_IO_IN.rawValue | G_IO_HUP.rawValue),
            { input, _, live in
                var line: UnsafeMutablePointer<gchar>?
                var end: gsize = 0
                guard g_io_channel_read_line(input, &line, nil, &end, nil) == G_IO_STATUS_NORMAL, let line else {
                    Live.from(live)?.quit()
                    return 0
                }
                line[Int(end)] = 0
                Live.from(live)?.command(String(cString: line))
                g_free(line)
                return 1
            }, pointer)
        // GLib's own signal watch, g_unix_signal_add, is in a header that the module map omits.
        signal(SIGINT, SIG_IGN)
        let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
        interrupt.setEventHandler { [self] in quit() }
        interrupt.activate()

        gst_element_set_state(pipeline, GST_STATE_PLAYING)
        g_main_loop_run(loop)
        gst_element_set_state(pipeline, GST_STATE_NULL)
        interrupt.cancel()
        gst_bus_remove_watch(bus)
        gst_object_unref(bus)
    }
}

gst_init(nil, nil)
var arguments = Array(CommandLine.arguments.dropFirst())
var sink = "videoconvert ! autovideosink"
if arguments.count == 3, arguments[0] == "--sink" {
    sink = arguments[1]
    arguments.removeFirst(2)
}
guard arguments.count == 1 else { stop("usage: live [--sink DESCRIPTION] SOURCE-DESCRIPTION") }
let live = Live(source: arguments[0], sink: sink)
live.run()
exit(live.failed ? 1 : 0)
