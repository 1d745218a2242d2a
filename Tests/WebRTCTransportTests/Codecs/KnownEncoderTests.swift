import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The table of encoders: values first, then each factory with the numbers that reach it.
@Suite(.timeLimit(.minutes(1)))
struct KnownEncoderTests {
    init() { GStreamerRuntime.initialise() }

    @Test func eachFactoryIsThereOnce() {
        let names = KnownEncoder.all.map(\.factory)
        #expect(Set(names).count == names.count)
        #expect(KnownEncoder.named("vah264enc")?.bitrate == BitrateProperty(name: "bitrate", unit: .kbit))
        #expect(KnownEncoder.named("x265enc") == nil)
        #expect(KnownEncoder.named(nil) == nil)
        for codec in VideoCodec.allCases {
            #expect(codec.encoders.allSatisfy { KnownEncoder.named($0)?.codec == codec })
        }
    }

    @Test func aValueHasTheUnitAndStaysInTheRange() {
        let bit = BitrateProperty(name: "b", unit: .bit)
        let kbit = BitrateProperty(name: "b", unit: .kbit)
        #expect(bit.value(for: 1_234_567, in: 0...4_294_967_295) == 1_234_567)
        #expect(kbit.value(for: 1_234_567, in: 0...2_048_000) == 1234)
        #expect(kbit.value(for: 999, in: 0...2_048_000) == 1)
        #expect(bit.value(for: 0, in: 0...10) == 1)
        #expect(kbit.value(for: .max, in: 0...2_048_000) == 2_048_000)
        #expect(bit.value(for: -5, in: 100...200) == 100)
    }

    /// The target may change ten times a second, and each change costs such an encoder a keyframe.
    @Test func changesAreRationed() {
        var ration = BitrateRation()
        func next(_ target: Int, at milliseconds: Int) -> Int? {
            ration.next(target, now: .milliseconds(milliseconds))
        }
        #expect(next(1_000_000, at: 0) == 1_000_000)
        #expect(next(500_000, at: 400) == nil)
        #expect(next(900_000, at: 600) == nil)
        #expect(next(899_000, at: 600) == 899_000)
        #expect(next(1_300_000, at: 3500) == nil)
        #expect(next(1_300_000, at: 3600) == 1_300_000)
        #expect(next(2_000_000, at: 4500) == nil)
        #expect(next(2_000_000, at: 4600) == 2_000_000)
        #expect(next(2_100_000, at: 9000) == nil)
        #expect(next(2_100_001, at: 9000) == 2_100_001)
        #expect(next(2_000_000, at: 20_000) == nil)
        #expect(ration.applied == 2_100_001)
    }

    /// The numbers that arrive at an element of each factory while the target changes, in its unit.
    @Test(arguments: KnownEncoder.all)
    func eachFactoryGetsItsUnit(known: KnownEncoder) throws {
        let isStandIn = StandInEncoder.register(known)
        let element = try Element(factory: known.factory)
        known.apply(to: element)
        let bitrate = try #require(EncoderBitrate(element, known: known))
        let unit = known.bitrate.unit == .kbit ? 1000 : 1
        func value() -> Int? {
            known.bitrate.field.map { element.structure(known.bitrate.name)?.int($0) }
                ?? element.int(known.bitrate.name)
        }
        bitrate.set(1_500_000, now: .zero)
        #expect(value() == 1_500_000 / unit)
        bitrate.set(600_000, now: .milliseconds(100))
        // An encoder that restarts keeps the last one until the change is due.
        #expect(value() == (known.restartsAtNewBitrate ? 1_500_000 : 600_000) / unit)
        bitrate.frameComes(now: .milliseconds(600))
        #expect(value() == 600_000 / unit)
        for setting in known.settings + known.keyframes where isStandIn && setting.property != known.bitrate.name {
            #expect(element.string(setting.property) == setting.value, "\(setting.property)")
        }
        if known.bitrate.field != nil, let text = known.settings.first?.value, let preset = Structure(parsing: text) {
            let controls = try #require(element.structure(known.bitrate.name))
            for field in preset.fields { #expect(controls.int(field) == preset.int(field), "\(field)") }
        }
    }

    /// The settings of the encoders that are installed here reach properties that exist.
    @Test(arguments: ["x264enc", "openh264enc", "vp8enc", "vp9enc"]) func theSettingsExist(factory: String) throws {
        let known = try #require(KnownEncoder.named(factory))
        guard GStreamerRuntime.hasElement(factory) else { return }
        let element = try Element(factory: factory)
        known.apply(to: element)
        for setting in known.settings + known.keyframes {
            #expect(element.hasProperty(setting.property), "\(setting.property)")
            if let number = Int(setting.value) {
                #expect(element.int(setting.property) == number, "\(setting.property)")
            }
        }
    }

    /// x264 writes its options into the first frame.
    @Test func x264FiltersTheEdgesOfBlocks() throws {
        guard GStreamerRuntime.hasElement("x264enc") else { return }
        let bin = try Bin(
            description: "videotestsrc num-buffers=1 ! video/x-raw,format=I420,width=320,height=180 ! x264enc ! "
                + "video/x-h264,stream-format=byte-stream ! appsink sync=false", ghostUnlinkedPads: false)
        let pipeline = Pipeline()
        pipeline.add([bin])
        let encoder = try #require(bin.allElements.first { $0.factoryName == "x264enc" })
        try #require(KnownEncoder.named("x264enc")).apply(to: encoder)
        let frame = Watched<[UInt8]>([])
        encoder.staticPad("src")?.addProbe(.buffer) { item in
            if case .buffer(let buffer) = item { frame.change { $0 = buffer.withBytes { [UInt8]($0) } ?? [] } }
            return .pass
        }
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        #expect(frame.wait { !$0.isEmpty })
        let options = frame.read { String(decoding: $0, as: UTF8.self) }
        #expect(options.contains(" deblock=1:0:0 ") && options.contains(" scenecut=0 "))
    }

    private func encoder(_ description: String) throws -> VideoEncoderBin {
        let parameters = RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        return try VideoEncoderBin(parameters: parameters, bitrate: 700_000, encoderDescription: description)
    }

    @Test func theFirstKnownEncoderOfABinFollows() throws {
        let described = try encoder("identity ! vp8enc deadline=1")
        #expect(described.encoder.factoryName == "vp8enc" && described.followsBitrate)
        #expect(described.encoder.int("target-bitrate") == 700_000)
    }

    /// An encoder that no row describes, and an element without a bitrate.
    @Test(
        arguments: [
            ("x265enc", BitrateProperty(name: "bitrate", unit: .kbit)),
            ("vp8enc", BitrateProperty(name: "target-bitrate", unit: .bit)),
            ("openh264enc", BitrateProperty(name: "bitrate", unit: .bit)),
            ("x264enc", BitrateProperty(name: "bitrate", unit: .kbit)), ("identity", nil),
        ] as [(String, BitrateProperty?)])
    func aPropertyIsFoundByItsName(factory: String, property: BitrateProperty?) throws {
        guard let element = try? Element(factory: factory) else { return }
        #expect(BitrateProperty(of: element) == property)
    }
}
