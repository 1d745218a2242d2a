// Where the sound of `decartsrc` comes from: one source beside the cameras, there as long as the element runs, and given to
// `decarttransform`, which takes sound for as long as this is linked. It knows devices; it must not know sessions.
import GStreamerKit
import Synchronization

// @unchecked: elements and pads lock themselves; the rest belongs to the thread that changes the element's state.
final class Microphone: @unchecked Sendable {
    private let bin = Bin(name: "microphone")
    private let output: GhostPad
    /// As a message names it; nil where its errors are the user's.
    private let label: String?
    private var entry: Pad?
    private let isLost = Mutex(false)

    /// nil where no sound is wanted.
    init?(_ source: String) throws(ElementFailure) {
        let made: Element
        switch source {
        case SourceSettings.noSound: return nil
        case SourceSettings.automatic:
            guard let device = Self.defaultDevice else {
                throw ElementFailure(
                    .resourceNotFound,
                    "There is no microphone: plug one in, or set audio-source to none or to a description.")
            }
            guard let element = device.makeElement() else {
                throw ElementFailure(.resourceFailed, "The microphone '\(device.displayName)' cannot be opened.")
            }
            (made, label) = (element, device.displayName)
        default:
            do throws(GStreamerError) {
                // As for pictures: what is not live comes at its own speed.
                made = try Bin(description: "\(source) ! clocksync sync-to-first=true", ghostUnlinkedPads: true)
            } catch {
                throw ElementFailure(.resourceSettings, "audio-source cannot be made: \(error.message).")
            }
            label = nil
        }
        bin.add(made)
        guard let last = made.staticPad("src"), let output = try? GhostPad(name: "src", target: last) else {
            throw ElementFailure(.resourceSettings, "audio-source has no output, or more than one.")
        }
        self.output = output
        bin.add(output)
    }

    /// The user's choice; a monitor of what the machine plays is nobody's microphone.
    private static var defaultDevice: Device? {
        let monitor = DeviceMonitor()
        if let caps = try? Caps(AudioInput.caps) { monitor.addFilter(classes: "Audio/Source", caps: caps) }
        let devices = monitor.devices.filter { $0.properties?.string("device.class") != "monitor" }
        return devices.first { $0.properties?["is-default"]?.bool == true } ?? devices.first
    }

    /// Before the element starts.
    func attach(to element: Bin, _ transform: Element) throws(ElementFailure) {
        guard let entry = transform.requestPad("audio_sink") else {
            throw ElementFailure(
                .coreMissingPlugin,
                "A GStreamer plugin is missing: no Opus encoder, decoder or packetizer. Install the packages that the README names.")
        }
        self.entry = entry
        element.add(bin)
        do throws(GStreamerError) { try output.link(entry) } catch {
            remove(from: element, transform)
            throw ElementFailure(.resourceSettings, "audio-source gives no raw audio: \(error.message).")
        }
    }

    /// When the element has stopped.
    func remove(from element: Bin, _ transform: Element) {
        bin.setLockedState(true)
        bin.setState(.null)
        if let entry {
            output.unlink(entry)
            transform.releaseRequestPad(entry)
        }
        entry = nil
        element.remove(bin)
    }

    /// Whether an error is a microphone's, without which pictures go on; of another source it ends the element. The text of a
    /// warning the first time.
    func takesOver(_ message: Message) -> (isOurs: Bool, warning: String?) {
        guard let label, message.isFrom(within: bin) else { return (false, nil) }
        let isFirst = isLost.withLock { isLost in
            defer { isLost = true }
            return !isLost
        }
        let why = message.problem?.text ?? "it says no more"
        return (true, isFirst ? "\(label) is lost: \(why.hasSuffix(".") ? String(why.dropLast()) : why). Going on without sound." : nil)
    }
}
