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
guard let decart = pipeline.child(named: "decart") else {
    end("no decarttransform of the pipeline is named decart: write name=decart")
}
let messages = pipeline.bus.messages
pipeline.setState(.playing)
Thread.detachNewThread {
    while let line = readLine() { decart.set("prompt", line) }
    pipeline.send(.eos())
}
loop: for await message in messages {
    switch message.kind {
    case .error:
        pipeline.setState(.null)
        end(message.problem?.text ?? "the pipeline failed")
    case .warning: show(message.problem?.text ?? "")
    case .eos: break loop
    default:
        if let fields = message.structure, fields.name == "decart-prompt-result" {
            show(fields["accepted"]?.bool == true ? "accepted" : fields.string("error") ?? "")
        }
    }
}
pipeline.setState(.null)
