// The driver of switch-camera.sh, on the product GStreamerKit: changes cameras within one session.
// switch-camera URL PREFIX [--cameras] leaves PREFIX-1.png to PREFIX-3.png.
import Foundation
import GStreamerKit
import Synchronization

func stop(_ why: String) -> Never {
    FileHandle.standardError.write(Data("switch-camera: \(why)\n".utf8))
    exit(1)
}

/// The camera's frames: when the last one came, and the longest time between two.
let frames = Mutex((last: ContinuousClock.now, gap: Duration.zero))

@main enum SwitchCamera {
    static func main() throws { try drive() }

    /// Not isolated to the main actor: a streaming thread calls the probe.
    nonisolated static func drive() throws {
        let words = CommandLine.arguments
        guard words.count > 2 else { stop("usage: switch-camera URL PREFIX [--cameras]") }
        GStreamerRuntime.initialise()
        let caps = "video/x-raw,width=1280,height=720,framerate=30/1"
        let sides = words.contains("--cameras") ? [] : [("front", "smpte100"), ("back", "smpte75")]
        VirtualCameras.set(sides.map { VirtualCamera(name: $0, id: $0, position: $0, caps: caps, pattern: $1) })
        let png = "videorate drop-only=true max-rate=2 ! videoconvert ! pngenc ! fakesink name=png"
        let source = "decartsrc name=camera mirror=auto prompt=Lego base-url=\(words[1]) api-key=x"
        let pipeline = try Pipeline(description: "\(source) ! \(png)")
        guard let camera = pipeline.child(named: "camera"), let sink = pipeline.child(named: "png") else { exit(1) }
        pipeline.child(named: "camera-tee")?.staticPad("sink")?.addProbe(.buffer) { _ in
            frames.withLock { $0 = (.now, max($0.gap, .now - $0.last)) }
            return .pass
        }
        pipeline.setState(.playing)
        var session: String?
        for number in 1...3 {
            frames.withLock { $0 = (.now, .zero) }
            let next = number == 1 ? nil : camera.emit("switch-camera")?.string
            let end = ContinuousClock.now + .seconds(number == 1 ? 6 : 4)
            while let message = pipeline.bus.next(timeout: max(.zero, end - .now)) {
                if message.kind == .error { stop(message.problem?.text ?? "the pipeline failed") }
            }
            let (now, device) = (camera.string("session-id"), camera.string("current-device"))
            if number > 1, now != session || device != next { stop("the session or the camera is another one") }
            session = now
            guard let image = sink.value("last-sample")?.sample?.buffer else { stop("no frame came back") }
            try image.withBytes { try Data($0).write(to: URL(fileURLWithPath: "\(words[2])-\(number).png")) }
            let gap = frames.withLock { Int($0.gap / .milliseconds(1)) }
            print("session \(now ?? "none"), \(device ?? "none"), \(gap) ms between two pictures at most")
        }
        pipeline.setState(.null)
    }
}
