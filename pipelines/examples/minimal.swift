// minimal.py in Swift, on the product GStreamerKit: pipelines/examples/build.sh builds it in a package of its own.
import Foundation
import GStreamerKit

/// Without the buffer of `print`, for a reader behind a pipe.
func show(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

func end(_ text: String, status: Int32 = 1) -> Never {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
    exit(status)
}

if CommandLine.arguments.contains("--help") { end("minimal [PIPELINE]", status: 0) }
GStreamerRuntime.initialise()
let test = "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"
let pipeline: Pipeline
do {
    pipeline = try Pipeline(description: CommandLine.arguments.dropFirst().first ?? test)
} catch {
    let text = error.message
    end(text.contains("no element \"decart") ? "\(text) (package gstreamer1.0-decart)" : text)
}
guard let decart = pipeline.child(named: "decart"), decart.factoryName?.hasPrefix("decart") == true else {
    end("no decarttransform of the pipeline is named decart: write name=decart")
}
let messages = pipeline.bus.messages
pipeline.setState(.playing)
Thread.detachNewThread {
    while let line = readLine() { decart.set("prompt", line) }
    pipeline.send(.eos())
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
pipeline.setState(.null)
