// minimal.py in Swift, on the product GStreamerKit: pipelines/examples/build.sh builds it in a package of its own.
import Foundation
import GStreamerKit

/// Without the buffer of `print`, for a reader behind a pipe.
func show(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

GStreamerRuntime.initialise()
let test = "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"
let pipeline = try Pipeline(description: CommandLine.arguments.dropFirst().first ?? test)
guard let decart = pipeline.child(named: "decart") else { fatalError("no element named decart") }
let messages = pipeline.bus.messages
pipeline.setState(.playing)
Thread.detachNewThread {
    while let line = readLine() { decart.set("prompt", line) }
    pipeline.send(.eos())
}
loop: for await message in messages {
    switch message.kind {
    case .error:
        show(message.problem?.text ?? "")
        break loop
    case .eos: break loop
    default:
        if let fields = message.structure, fields.name == "decart-prompt-result" {
            show(fields["accepted"]?.bool == true ? "accepted" : fields.string("error") ?? "")
        }
    }
}
pipeline.setState(.null)
