import GStreamerKit
import Synchronization

/// A bin class with one of each feature, whose instances record every call.
final class Specimen: ElementImplementation {
    struct Seen: Sendable {
        var numbers: [String: Int] = ["count": 7, "mode": 1]
        var texts: [String: String] = [:]
        var changes: [[String]] = []
        var states: [StateChange] = []
        var actions: [String] = []
        var refusesReady = false
        var events = 0
        var onEnd: (@Sendable ([StateChange]) -> Void)?
    }
    let seen = Mutex(Seen())

    static let registered: RegisteredElementClass = {
        GStreamerRuntime.initialise()
        let registered = RegisteredElementClass(elementClass)
        _ = registered.addFactory("decartspecimen", to: nil)
        return registered
    }()

    static let elementClass = ElementClass(
        typeName: "GstDecartSpecimen", parent: .bin, longName: "Specimen", classification: "Test", summary: "For tests",
        author: "Tests",
        pads: [PadTemplate(name: "sink", direction: .sink, presence: .always, caps: "video/x-raw")],
        properties: [
            PropertySpec(
                "count", nick: "Count", blurb: "A number", .int(-5...100, default: 7), mutability: .playing),
            PropertySpec("size", nick: "Size", blurb: "A size", .uint(0...Int(UInt32.max), default: 0)),
            PropertySpec("text", nick: "Text", blurb: "A text", .string(default: nil)),
            PropertySpec("secret", nick: "Secret", blurb: "Write-only", .string(default: nil), access: .writeOnly),
            PropertySpec("fixed", nick: "Fixed", blurb: "Read-only", .string(default: nil), access: .readOnly),
            PropertySpec("flag", nick: "Flag", blurb: "A flag", .boolean(default: false)),
            PropertySpec("list", nick: "List", blurb: "Strings", .strings),
            PropertySpec(
                "mode", nick: "Mode", blurb: "A mode",
                .enumeration(type: "GstDecartSpecimenMode", values: [(1, "one", "One"), (2, "two", "Two")], default: 1)),
        ],
        signals: [
            SignalSpec(name: "reported", parameters: [.int, .string]),
            SignalSpec(name: "double", parameters: [.int], result: .int, isAction: true),
        ]
    ) { _ in Specimen() }

    func setProperty(_ name: String, _ value: GValueBox) {
        seen.withLock { seen in
            if let number = value.int { seen.numbers[name] = number }
            if let flag = value.bool { seen.numbers[name] = flag ? 1 : 0 }
            if let strings = value.strings {
                seen.texts[name] = strings.joined(separator: "|")
            } else {
                seen.texts[name] = value.string
            }
        }
    }

    func property(_ name: String) -> GValueBox? {
        let (number, text) = seen.withLock { ($0.numbers[name], $0.texts[name]) }
        switch name {
        case "mode": return GValueBox(enumeration: "GstDecartSpecimenMode", number ?? 1)
        case "flag": return GValueBox(number == 1)
        case "size": return GValueBox(uint: number ?? 0)
        case "count": return GValueBox(int: number ?? 0)
        case "list": return GValueBox(strings: text?.split(separator: "|").map(String.init) ?? [])
        case "fixed": return GValueBox("always this")
        default: return GValueBox(text)
        }
    }

    func propertiesChanged(_ names: [String]) {
        seen.withLock { $0.changes.append(names) }
    }

    deinit {
        let (states, onEnd) = seen.withLock { ($0.states, $0.onEnd) }
        onEnd?(states)
    }

    func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        let refuses = seen.withLock { seen in
            seen.states.append(change)
            return seen.refusesReady && change == .nullToReady
        }
        return refuses ? .failure : chainUp()
    }

    func sendEvent(_ event: Event) -> Bool? {
        guard event.isForceKeyUnit else { return nil }
        seen.withLock { $0.events += 1 }
        return true
    }

    func actionSignal(_ name: String, _ arguments: [GValueBox]) -> GValueBox? {
        seen.withLock { $0.actions.append(name) }
        return arguments.first?.int.map { GValueBox(int: $0 * 2) }
    }
}
