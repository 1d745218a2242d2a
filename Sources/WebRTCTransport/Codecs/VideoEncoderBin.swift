package import GStreamerKit
internal import Synchronization

/// Encodes video to RTP: one stream, or several layers of a simulcast.
package protocol VideoSender: Sendable {
    /// Raw I420 in ("sink"), RTP out ("src").
    var bin: Bin { get }
    var encoders: [Element] { get }
    /// Bytes of all encoded frames so far except keyframes, from which `DegradationLadder` derives frame rate and size.
    /// nil for simulcast: it pauses layers when the bitrate falls short, and keeps frame rate and size.
    var bytesOfDeltaFrames: UInt64? { get }
    /// Sets the total bitrate, bit/s, from the next frame on.
    func setBitrate(_ bitrate: Int)
    /// Sets the size of the next frames. Call it before their caps arrive.
    func setSize(width: Int, height: Int)
}

/// Encoder and payloader, tuned for live video.
package final class VideoEncoderBin: VideoSender {
    package let bin: Bin
    package let encoder: Element
    package let codec: VideoCodec
    private let made = Made()

    private final class Made: Sendable {
        let bytesOfDeltaFrames = Atomic<UInt64>(0)
    }

    /// `encoderDescription` is an element factory or a bin description; empty selects an installed encoder. `bitrate`
    /// is in bit/s.
    package init(parameters: RTPSendParameters, bitrate: Int, encoderDescription: String = "") throws(GStreamerError) {
        codec = parameters.codec
        bin = Bin()
        var elements: [Element] = []
        if encoderDescription.isEmpty {
            guard let factory = codec.installedEncoder else {
                let names = codec.encoders.joined(separator: " or ")
                throw GStreamerError(
                    .missingElement(names), "no \(codec.encodingName) encoder is installed: install \(names)")
            }
            encoder = try Element(factory: factory)
            EncoderTuning.apply(to: encoder)
        } else if encoderDescription.contains(where: { $0 == " " || $0 == "!" }) {
            let described = try Bin(description: encoderDescription, ghostUnlinkedPads: true)
            encoder = described.allElements.first { EncoderTuning.knows($0.factoryName) } ?? described
            elements.append(described)
        } else {
            encoder = try Element(factory: encoderDescription)
            EncoderTuning.apply(to: encoder)
        }
        if elements.isEmpty { elements.append(encoder) }
        elements[0].staticPad("src")?.addProbe(.buffer) { [made] item in
            if case .buffer(let frame) = item, frame.isDeltaUnit {
                made.bytesOfDeltaFrames.wrappingAdd(UInt64(frame.size), ordering: .relaxed)
            }
            return .pass
        }
        EncoderTuning.setBitrate(bitrate, on: encoder)
        if codec == .h264 {
            let profile = try Element(factory: "capsfilter")
            profile.set("caps", caps: try Caps("video/x-h264, profile=(string){ constrained-baseline, baseline }"))
            elements.append(profile)
        }
        let payloader = try Element(factory: codec.payloader)
        payloader.set("pt", parameters.payloadType)
        payloader.set("ssrc", Int(parameters.ssrc))
        payloader.set("mtu", parameters.mtu)
        // Start in the lower half: a lost packet at the wrap would desynchronise the SRTP rollover counter (RFC 3711
        // 3.3.1).
        payloader.set("seqnum-offset", Int.random(in: 0..<32768))
        payloader.set("picture-id-mode", "15-bit")
        payloader.set("config-interval", "-1")
        payloader.set("aggregate-mode", "zero-latency")
        if let id = parameters.transportWideCCExtension {
            payloader.addRTPHeaderExtension(uri: HeaderExtensionIDs.transportWideCCURI, id: id)
        }
        elements.append(payloader)
        Self.paceKeyframes(of: elements[0], requestedAt: payloader)
        bin.add(elements)
        try bin.linkChain(elements)
        guard let sink = elements[0].staticPad("sink"), let source = payloader.staticPad("src") else {
            throw GStreamerError(
                .badDescription, "the description '\(encoderDescription)' in encoder has no pad named sink")
        }
        bin.add(try GhostPad(name: "sink", target: sink))
        bin.add(try GhostPad(name: "src", target: source))
    }

    /// Delays keyframe requests until the next frame, and until `keyframeInterval` has passed since the last keyframe.
    private static func paceKeyframes(of encoder: Element, requestedAt payloader: Element) {
        guard let frames = encoder.staticPad("sink"), let source = encoder.staticPad("src") else { return }
        let isRequested = Requested()
        payloader.staticPad("sink")?.addProbe(.upstreamEvent) { item in
            guard case .event(let event) = item, event.isForceKeyUnit else { return .pass }
            isRequested.value.store(true, ordering: .relaxed)
            return .handled
        }
        // The first frame is a keyframe anyway.
        var last: ClockTime?
        frames.addProbe(.buffer) { [source = source.unowned] item in
            guard case .buffer(let frame) = item, let time = frame.pts else { return .pass }
            let isDue = last.map { time < $0 || time - $0 >= keyframeInterval } ?? true
            guard isDue, last == nil || isRequested.value.load(ordering: .relaxed) else { return .pass }
            isRequested.value.store(false, ordering: .relaxed)
            if last != nil { source.send(Event.forceKeyUnitUpstream()) }
            last = time
            return .pass
        }
    }

    private final class Requested: Sendable {
        let value = Atomic(false)
    }

    /// Each lost packet and each viewer may request a keyframe, and a burst of keyframes congests the path that lost
    /// the packet.
    private static let keyframeInterval: ClockTime = 300_000_000

    /// True if the bitrate of this encoder can be set; otherwise it stays as its description says.
    package static func followsBitrate(_ encoder: Element) -> Bool { EncoderTuning.knows(encoder.factoryName) }
    /// Factories of encoders with a bitrate that can be set.
    package static var followingEncoders: [String] { EncoderTuning.factories }

    package var encoders: [Element] { [encoder] }
    package var bytesOfDeltaFrames: UInt64? { made.bytesOfDeltaFrames.load(ordering: .relaxed) }
    package func setSize(width: Int, height: Int) {}
    package func setBitrate(_ bitrate: Int) { EncoderTuning.setBitrate(bitrate, on: encoder) }
}

/// Settings for each encoder. Keyframes come on request only: a periodic one costs a burst of packets and a spike of
/// CPU.
enum EncoderTuning {
    static var factories: [String] { settings.keys.sorted() }
    static func knows(_ factory: String?) -> Bool { factory.map { settings[$0] != nil } ?? false }

    // Measured at 720p: a frame takes 224-247 ms with vp8enc's defaults and 4-5 ms with these; a cpu-used of -16 would
    // lose 5 dB without any gain.
    private static let settings: [String: [(String, String)]] = [
        "vp8enc": libvpx + [("cpu-used", "-12")],
        "vp9enc": libvpx + [("cpu-used", "8"), ("row-mt", "false")],
        "x264enc": [
            ("tune", "zerolatency"), ("speed-preset", "ultrafast"), ("key-int-max", "2560"), ("bframes", "0"),
            ("byte-stream", "true"), ("threads", "1"), ("sliced-threads", "false"), ("vbv-buf-capacity", "300"),
            ("option-string", "scenecut=0"),
        ],
        "openh264enc": [
            ("complexity", "low"), ("gop-size", "2560"), ("rate-control", "bitrate"), ("multi-thread", "1"),
            ("scene-change-detection", "false"), ("max-bitrate", "0"),
        ],
    ]

    private static let libvpx: [(String, String)] = [
        ("deadline", "1"), ("threads", "1"), ("lag-in-frames", "0"), ("end-usage", "cbr"),
        ("keyframe-max-dist", "2000"),
        ("keyframe-mode", "auto"), ("buffer-size", "600"), ("buffer-initial-size", "300"),
        ("buffer-optimal-size", "400"),
        ("undershoot", "95"), ("overshoot", "15"), ("max-intra-bitrate", "300"), ("error-resilient", "default"),
    ]

    static func apply(to encoder: Element) {
        guard let factory = encoder.factoryName, let values = settings[factory] else { return }
        for (name, value) in values { encoder.set(name, value) }
        encoder.set("qos", false)
    }

    /// Encoders differ in the name and unit of their bitrate property.
    static func setBitrate(_ bitrate: Int, on encoder: Element) {
        switch encoder.factoryName {
        case "vp8enc", "vp9enc": encoder.set("target-bitrate", bitrate)
        case "x264enc": encoder.set("bitrate", max(1, bitrate / 1000))
        case "openh264enc": encoder.set("bitrate", bitrate)
        default: break
        }
    }
}
