// minimal.py in Swift: pipelines/examples/build.sh compiles it against GStreamer with the module map in Sources/CGStreamer.
import CGStreamer
import Foundation

extension UnsafeMutablePointer {
    func cast<T>() -> UnsafeMutablePointer<T> { UnsafeMutableRawPointer(self).assumingMemoryBound(to: T.self) }
}

/// Without the buffer of `print`, for a reader behind a pipe.
func show(_ text: UnsafePointer<CChar>?) {
    FileHandle.standardOutput.write(Data((text.map { String(cString: $0) } ?? "accepted").utf8 + [10]))
}

func end(_ text: String, status: Int32 = 1) -> Never {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
    exit(status)
}

gst_init(nil, nil)
if CommandLine.arguments.contains("--help") { end("minimal [PIPELINE]", status: 0) }
let test = "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"
var failure: UnsafeMutablePointer<GError>?
let parsed = gst_parse_launch(CommandLine.arguments.dropFirst().first ?? test, &failure)
if let text = failure.map({ String(cString: $0.pointee.message) }) {
    end(text.hasPrefix("no element \"decart") ? "\(text) (package gstreamer1.0-decart)" : text)
}
guard let parsed, g_type_check_instance_is_a(parsed.cast(), gst_bin_get_type()) != 0,
    let element = gst_bin_get_by_name(parsed.cast(), "decart"),
    String(cString: g_type_name_from_instance(element.cast())).hasPrefix("GstDecart")
else { end("no decarttransform of the pipeline is named decart: write name=decart") }
nonisolated(unsafe) let (pipeline, decart) = (parsed, element)
gst_element_set_state(pipeline, GST_STATE_PLAYING)
Thread.detachNewThread {
    while let line = readLine() { gst_util_set_object_arg(decart.cast(), "prompt", line) }
    gst_element_send_event(pipeline, gst_event_new_eos())
}
let kinds = GstMessageType(
    GST_MESSAGE_ERROR.rawValue | GST_MESSAGE_WARNING.rawValue | GST_MESSAGE_EOS.rawValue
        | GST_MESSAGE_ELEMENT.rawValue)
let bus = pipeline.pointee.bus
while let message = gst_bus_timed_pop_filtered(bus, .max, kinds), message.pointee.type != GST_MESSAGE_EOS {
    defer { gst_message_unref(message) }
    if message.pointee.type == GST_MESSAGE_ERROR {
        var error: UnsafeMutablePointer<GError>?
        gst_message_parse_error(message, &error, nil)
        gst_element_set_state(pipeline, GST_STATE_NULL)
        end(error.map { String(cString: $0.pointee.message) } ?? "the pipeline failed")
    }
    if message.pointee.type == GST_MESSAGE_WARNING {
        var warning: UnsafeMutablePointer<GError>?
        gst_message_parse_warning(message, &warning, nil)
        show(warning?.pointee.message)
        g_clear_error(&warning)
    }
    if let fields = gst_message_get_structure(message), gst_structure_has_name(fields, "decart-prompt-result") != 0 {
        show(gst_structure_get_string(fields, "error"))
    }
}
gst_element_set_state(pipeline, GST_STATE_NULL)
