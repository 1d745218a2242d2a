import GStreamerKit
import MediaPipeline
import Synchronization
import Testing

/// A bin with the output of a transform.
final class OutputHost: ElementImplementation {
    let output: VideoOutput
    let audio: AudioTrack
    let handle: ElementHandle

    private static let registered: RegisteredElementClass = {
        GStreamerRuntime.initialise()
        let registered = RegisteredElementClass(
            ElementClass(
                typeName: "GstDecartBranchHost", parent: .bin, longName: "Host", classification: "Test",
                summary: "For tests", author: "Tests",
                pads: [
                    PadTemplate(name: "src", direction: .source, presence: .always, caps: "video/x-raw"),
                    PadTemplate(
                        name: "audio_src", direction: .source, presence: .sometimes, caps: AudioFormat.templateCaps),
                ],
                properties: [], signals: []
            ) { OutputHost($0) })
        _ = registered.addFactory("decartbranchhost", to: nil)
        return registered
    }()

    init(_ handle: ElementHandle) {
        self.handle = handle
        let pad = handle.makePad(template: "src") ?? Pad(name: "src", direction: .source)
        output = VideoOutput(pad: pad, element: handle, log: Self.log)
        audio = AudioTrack(element: handle, pacing: InputPacing(), log: Self.log)
        handle.unowned.add(pad)
        Self.made.withLock { $0 = self }
    }

    private static let log = DebugCategory("decartbranchhost", "Test")
    private static let made = Mutex<OutputHost?>(nil)
    /// Suites run beside each other.
    private static let making = Mutex(())

    /// The element and its implementation.
    static func make() throws -> (Element, OutputHost) {
        _ = registered
        return try making.withLock { _ in
            let element = try Element(factory: "decartbranchhost")
            return (element, try #require(made.withLock { $0.take() }))
        }
    }

    /// Called with the messages of elements inside.
    let onMessage = Mutex<(@Sendable (Message) -> Void)?>(nil)

    func handleMessage(_ message: Message) -> Message? {
        onMessage.withLock { $0 }?(message)
        return message
    }

    func setProperty(_ name: String, _ value: GValueBox) {}
    func property(_ name: String) -> GValueBox? { nil }
}
