// The audio source of `decartsrc`. It exists while the element runs and is linked to the pad `audio_sink` that it
// requests from `decarttransform`, which publishes audio as long as that pad exists. This file knows devices; it must
// not know sessions.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

// @unchecked: elements and pads lock themselves; the rest is confined to the thread that changes the element's state.
final class Microphone: @unchecked Sendable {
    private let bin = Bin(name: "microphone")
    private let output: GhostPad
    /// Name of the microphone in messages; nil for a source that the user described, whose errors end the element.
    private let label: String?
    private var entry: Pad?
    private let isLost = Atomic(false)

    /// Returns nil if no audio is wanted.
    init?(_ source: String) throws(ElementProblem) {
        let made: Element
        switch source {
        case SourceSettings.noAudio, SourceSettings.cameraAudio: return nil
        case SourceSettings.automatic:
            guard let device = Self.defaultDevice else {
                throw ElementProblem(
                    .resourceNotFound,
                    "No microphone was found. Plug one in, or set audio-source to none or to a description.")
            }
            guard let element = device.makeElement() else {
                throw ElementProblem(.resourceFailed, "The microphone '\(device.displayName)' cannot be opened.")
            }
            (made, label) = (element, device.displayName)
        default:
            do throws(GStreamerError) {
                made = try DescribedSource.bin(source)
            } catch {
                throw ElementProblem(.resourceSettings, "audio-source is not a valid description: \(error.message).")
            }
            label = nil
        }
        bin.add(made)
        guard let last = made.staticPad("src"), let output = try? GhostPad(name: "src", target: last) else {
            throw ElementProblem(.resourceSettings, "audio-source must have exactly one unlinked source pad.")
        }
        self.output = output
        bin.add(output)
    }

    /// The system's default, or else the first one. A monitor captures what the machine plays and is no microphone.
    private static var defaultDevice: Device? {
        let monitor = DeviceMonitor()
        if let caps = try? Caps(AudioInput.rawCaps) { monitor.addFilter(classes: "Audio/Source", caps: caps) }
        let devices = monitor.devices.filter { $0.properties?.string("device.class") != "monitor" }
        return devices.first { $0.properties?["is-default"]?.bool == true } ?? devices.first
    }

    static let noOpus = ElementProblem.missing(
        DebianPackage.list(["opusenc", "opusdec", "rtpopuspay", "rtpopusdepay"]))

    /// Called before the element starts.
    func attach(to element: Bin, _ transform: Element) throws(ElementProblem) {
        guard let entry = transform.requestPad("audio_sink") else { throw Self.noOpus }
        self.entry = entry
        element.add(bin)
        do throws(GStreamerError) { try output.link(entry) } catch {
            remove(from: element, transform)
            throw ElementProblem(
                .resourceSettings,
                "audio-source delivers neither raw audio nor Opus: \(error.message). Put a decoder at its end.")
        }
    }

    /// Called after the element has stopped.
    func remove(from element: Bin, _ transform: Element) {
        element.takeOut([bin])
        if let entry = entry.take() { transform.releaseRequestPad(entry) }
    }

    /// Handles an error. A microphone's error leaves video running and comes with the text of a warning the first time;
    /// an error of any other source ends the element.
    func claims(_ message: Message) -> (isOurs: Bool, warning: String?) {
        guard let label, message.isFrom(within: bin) else { return (false, nil) }
        let isFirst = !isLost.exchange(true, ordering: .relaxed)
        let why = message.problem?.text ?? "its error has no text"
        let warning =
            "The microphone '\(label)' failed: \(why.withoutFinalPoint). "
            + "Video continues without audio; restart the element to use the microphone again."
        return (true, isFirst ? warning : nil)
    }
}
