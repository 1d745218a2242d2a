import RTP
package import GStreamerKit
import Synchronization
package import WebRTCTransport

/// A software encoder under the name of a hardware encoder that this machine lacks: it takes NV12, as most of them do,
/// has the bitrate property of its row in `KnownEncoder` with that unit, and records each value that arrives.
package final class StandInEncoder: ElementImplementation {
    /// Values of the bitrate property of all instances, in order, by factory.
    private static let recorded = Mutex<[String: [Int]]>([:])
    private static let registered = Mutex<[String: Bool]>([:])

    package static func values(of factory: String) -> [Int] { recorded.withLock { $0[factory] ?? [] } }
    package static func forgetValues(of factory: String) { recorded.withLock { $0[factory] = nil } }

    private let known: KnownEncoder
    private let inner: Element?
    private let texts = Mutex<[String: String]>([:])
    private let controls = Mutex<Structure?>(nil)

    /// Registers the factory, once; false if the machine has the real one.
    package static func register(_ known: KnownEncoder) -> Bool {
        GStreamerRuntime.initialise()
        return registered.withLock { registered in
            if let done = registered[known.factory] { return done }
            let isFree = !GStreamerRuntime.hasElement(known.factory)
            let isRegistered = isFree && RegisteredElementClass(elementClass(known)).addFactory(known.factory, to: nil)
            registered[known.factory] = isRegistered
            return isRegistered
        }
    }

    private static func elementClass(_ known: KnownEncoder) -> ElementClass {
        let encoded =
            known.codec == .h264
            ? "video/x-h264, stream-format=(string)byte-stream, alignment=(string)au, "
                + "profile=(string){ constrained-baseline, baseline }"
            : "video/x-\(known.codec.rawValue)"
        let maximum = known.bitrate.unit == .kbit ? 2_048_000 : Int(UInt32.max)
        let bitrate = PropertySpec(
            known.bitrate.name, nick: "Bitrate", blurb: "In \(known.bitrate.unit)/s",
            known.bitrate.field == nil ? .uint(0...maximum, default: 0) : .structure, mutability: .playing)
        let others = (known.settings + known.keyframes).filter { $0.property != known.bitrate.name }.map {
            PropertySpec($0.property, nick: $0.property, blurb: "Kept as text", .string(default: nil))
        }
        return ElementClass(
            typeName: "GstTestEncoder_\(known.factory)", parent: .bin, longName: "Stand-in for \(known.factory)",
            classification: "Codec/Encoder/Video", summary: "For tests", author: "Tests",
            pads: [
                PadTemplate(name: "sink", direction: .sink, presence: .always, caps: nv12),
                PadTemplate(name: "src", direction: .source, presence: .always, caps: encoded),
            ],
            properties: [bitrate] + others
        ) { StandInEncoder($0, known) }
    }

    private static let nv12 = "video/x-raw, format=(string)NV12"

    private init(_ handle: ElementHandle, _ known: KnownEncoder) {
        self.known = known
        inner = known.codec.installedEncoder.flatMap { try? Element(factory: $0) }
        let bin = handle.unowned
        guard let inner, let format = try? Element(factory: "capsfilter"),
            let convert = try? Element(factory: "videoconvert"), let caps = try? Caps(Self.nv12)
        else { return }
        KnownEncoder.named(inner.factoryName)?.apply(to: inner)
        format.set("caps", caps: caps)
        bin.add([format, convert, inner])
        try? bin.linkChain([format, convert, inner])
        for (name, element) in [("sink", format), ("src", inner)] {
            guard let pad = handle.makeGhostPad(template: name) else { continue }
            pad.setTarget(element.staticPad(name))
            bin.add(pad)
        }
    }

    package func setProperty(_ name: String, _ value: GValueBox) {
        guard name == known.bitrate.name else { return texts.withLock { $0[name] = value.string } }
        if let structure = value.structure { controls.withLock { $0 = structure } }
        let number = known.bitrate.field.map { value.structure?.int($0) } ?? value.int
        guard let number else { return }
        Self.recorded.withLock { $0[known.factory, default: []].append(number) }
        let bitrate = known.bitrate.unit == .kbit ? number * 1000 : number
        guard let inner, let own = KnownEncoder.named(inner.factoryName) else { return }
        EncoderBitrate(inner, known: own)?.set(bitrate, now: .zero)
        if known.restartsAtNewBitrate { inner.staticPad("src")?.send(Event.forceKeyUnitUpstream()) }
    }

    package func property(_ name: String) -> GValueBox? {
        if name == known.bitrate.name {
            if known.bitrate.field != nil { return controls.withLock { $0 }.map { GValueBox(structure: $0) } }
            return GValueBox(uint: Self.values(of: known.factory).last ?? 0)
        }
        return GValueBox(texts.withLock { $0[name] })
    }
}
