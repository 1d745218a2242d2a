package import GStreamerKit
package import RTP
internal import Synchronization

/// Encodes video to RTP: one stream, or several layers of a simulcast.
package protocol VideoSender: Sendable {
    /// Raw I420 in ("sink"), RTP out ("src").
    var bin: Bin { get }
    var encoders: [Element] { get }
    /// False if the bitrate of the encoders cannot be set: it stays as it is.
    var followsBitrate: Bool { get }
    /// What was encoded so far, from which `DegradationLadder` derives frame rate and size. nil for simulcast: it pauses layers
    /// when the bitrate falls short, and keeps frame rate and size.
    var made: EncodedSum? { get }
    /// RIDs of the simulcast layers that are sent now, highest resolution first; empty: one stream.
    var sentLayers: [String] { get }
    /// Frames encoded so far; those of all layers.
    var codingTime: CodingTime { get }
    /// Sets the total bitrate, bit/s, from the next frame on.
    func setBitrate(_ bitrate: Int)
    /// Sets the size of the next frames. Call it before their caps arrive.
    func setSize(width: Int, height: Int)
    /// Makes the next frame a keyframe, however short the time since the last one.
    func requestKeyframe()
    /// Encodes only these layers of a simulcast; one that comes back begins with a keyframe.
    func setWanted(_ rids: Set<String>)
}

extension VideoSender {
    package func setWanted(_ rids: Set<String>) {}
}

/// Encoder and payloader, tuned for live video.
package final class VideoEncoderBin: VideoSender {
    package let bin: Bin
    package let encoder: Element
    package let codec: VideoCodec
    private let output: Output
    private let keyframe = KeyframeRequest()
    private let timer = CodingTimer()
    private let bitrate: EncoderBitrate?

    private final class Output: Sendable {
        private let state: Mutex<(sum: EncodedSum, reader: QuantizerReader)>
        init(_ codec: VideoCodec) { state = Mutex((EncodedSum(), QuantizerReader(codec))) }

        var sum: EncodedSum { state.withLock(\.sum) }

        func add(_ frame: Buffer) {
            state.withLock { state in
                // A keyframe has the parameter sets that later frames are read with.
                let excess = frame.withBytes { state.reader.excess($0) }
                guard frame.isDeltaUnit else { return }
                state.sum.frames &+= 1
                state.sum.bytes &+= UInt64(frame.size)
                guard let excess, let excess else { return }
                state.sum.judged &+= 1
                state.sum.excess += excess
            }
        }
    }

    /// `encoderDescription` is an element factory or a bin description; empty selects an installed encoder. `bitrate`
    /// is in bit/s. H.264 leaves the encoder as a byte-stream if it can: neither parameter sets nor trailers can be put into
    /// the AVC format.
    package init(
        parameters: RTPSendParameters, bitrate: Int, encoderDescription: String = ""
    ) throws(GStreamerError) {
        codec = parameters.codec
        output = Output(parameters.codec)
        bin = Bin()
        var elements: [Element] = []
        if encoderDescription.isEmpty {
            guard let factory = codec.installedEncoder else {
                let names = DebianPackage.list(codec.encoders)
                throw GStreamerError(
                    .missingElement(names), "no \(codec.encodingName) encoder is installed: install \(names)")
            }
            encoder = try Element(factory: factory)
        } else if encoderDescription.contains(where: { $0 == " " || $0 == "!" }) {
            let described = try Bin(description: encoderDescription, ghostUnlinkedPads: true)
            encoder = described.encoder
            elements.append(described)
        } else {
            encoder = try Element(factory: encoderDescription)
        }
        let known = KnownEncoder.named(encoder.factoryName)
        if elements.isEmpty {
            known?.apply(to: encoder)
            elements.append(encoder)
        }
        // An application's own bin may do with its bitrate what we do not know.
        self.bitrate = EncoderBitrate(encoder, known: known, corrects: elements.first === encoder)
        elements[0].staticPad("src")?.addProbe(.buffer) { [output] item in
            if case .buffer(let frame) = item { output.add(frame) }
            return .pass
        }
        timer.attach(to: elements[0])
        self.bitrate?.set(bitrate, now: MonotonicTime.now)
        if let bitrate = self.bitrate, bitrate.isRationed {
            elements[0].staticPad("sink")?.addProbe(.buffer) { [bitrate] _ in
                bitrate.frameComes(now: MonotonicTime.now)
                return .pass
            }
        }
        if codec == .h264 {
            let profile = try Element(factory: "capsfilter")
            let any = "video/x-h264, profile=(string){ constrained-baseline, baseline }"
            let preferred = "\(any), stream-format=(string)byte-stream, alignment=(string)au; "
            profile.set("caps", caps: try Caps(preferred + any))
            elements.append(profile)
        }
        let adapter = try VideoMemory.adapter(to: elements[0])
        let payloader = try VideoPayloader.make(parameters)
        payloader.set("config-interval", "-1")
        elements.append(payloader)
        if codec == .h264 { Self.repeatParameterSets(at: payloader) }
        Self.appendTrailers(at: payloader)
        Self.paceKeyframes(of: elements[0], requestedAt: payloader, keyframe)
        elements = adapter + elements
        bin.add(elements)
        try bin.linkChain(elements)
        guard let sink = elements[0].staticPad("sink"), let source = payloader.staticPad("src") else {
            throw GStreamerError(
                .badDescription, "the description '\(encoderDescription)' in encoder has no pad named sink")
        }
        bin.add(try GhostPad(name: "sink", target: sink))
        bin.add(try GhostPad(name: "src", target: source))
    }

    /// Puts the parameter sets in front of each keyframe whose encoder does not repeat them. The payloader would put them in
    /// front of each slice of a keyframe, where they begin another frame, so that a receiver shows the slices one by one.
    private static func repeatParameterSets(at payloader: Element) {
        // Only for the encoder's thread. nil: the AVC format, in which the sets are known to the payloader alone.
        nonisolated(unsafe) var reader: EncodedVideoReader?
        payloader.staticPad("sink")?.addProbe([.buffer, .downstreamEvent]) { [owner = payloader.unowned] item in
            switch item {
            case .event(let event):
                guard let format = event.caps?.first?.string("stream-format") else { break }
                reader = format == "byte-stream" ? reader ?? EncodedVideoReader(codec: .h264) : nil
                owner.set("config-interval", reader == nil ? "-1" : "0")
            case .buffer(let frame):
                guard !frame.isDeltaUnit, let bytes = frame.withBytes({ reader?.read($0).rewritten }) ?? nil else {
                    break
                }
                let whole = bytes.withUnsafeBytes(Buffer.init(copying:))
                (whole.pts, whole.dts, whole.duration) = (frame.pts, frame.dts, frame.duration)
                whole[.trailer] = frame[.trailer]
                return .replace(whole)
            case .query: break
            }
            return .pass
        }
    }

    /// Appends the trailer that a raw frame had in its meta `trailer`, which the encoder has copied to the encoded frame.
    private static func appendTrailers(at payloader: Element) {
        // Only for the encoder's thread. In the AVC format, a length precedes each NAL unit.
        nonisolated(unsafe) var takesTrailers = true
        payloader.staticPad("sink")?.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event):
                if let caps = event.caps {
                    takesTrailers = ["byte-stream", nil].contains(caps.first?.string("stream-format"))
                }
            case .buffer(let frame):
                guard takesTrailers, let trailer = frame[.trailer], let whole = frame.appending(trailer) else {
                    return .pass
                }
                // The payloader would copy it to each packet.
                whole[.trailer] = nil
                return .replace(whole)
            case .query: break
            }
            return .pass
        }
    }

    /// Delays keyframe requests until the next frame, and until `keyframeInterval` has passed since the last keyframe, which
    /// has been sent unless the request is for all headers.
    private static func paceKeyframes(of encoder: Element, requestedAt payloader: Element, _ request: KeyframeRequest) {
        guard let frames = encoder.staticPad("sink"), let source = encoder.staticPad("src") else { return }
        payloader.staticPad("sink")?.addProbe(.upstreamEvent) { item in
            guard case .event(let event) = item, event.isForceKeyUnit else { return .pass }
            request.make(event.wantsAllHeaders ? .immediate : .paced)
            return .handled
        }
        // Only for the stream's thread. The first frame is a keyframe anyway.
        nonisolated(unsafe) var last: ClockTime?
        frames.addProbe(.buffer) { [source = source.unowned] item in
            guard case .buffer(let frame) = item, let time = frame.pts else { return .pass }
            let isDue = last.map { time < $0 || time - $0 >= keyframeInterval } ?? true
            guard request.consume(isDue: isDue) || last == nil else { return .pass }
            // Without "all headers", for which an encoder sends parameter sets in a buffer of their own: on the wire an
            // access unit without a slice. The payloader repeats parameter sets that the encoder does not.
            if last != nil { source.send(Event.forceKeyUnitUpstream(allHeaders: false)) }
            last = time
            return .pass
        }
    }

    package func requestKeyframe() { keyframe.make(.immediate) }

    /// Each lost packet and each viewer may request a keyframe, and a burst of keyframes congests the path that lost
    /// the packet.
    private static let keyframeInterval: ClockTime = 300_000_000

    package var followsBitrate: Bool { bitrate != nil }
    package var encoders: [Element] { [encoder] }
    package var made: EncodedSum? { output.sum }
    package var sentLayers: [String] { [] }
    package var codingTime: CodingTime { timer.sum }
    package func setSize(width: Int, height: Int) {}
    package func setBitrate(_ bitrate: Int) { self.bitrate?.set(bitrate, now: MonotonicTime.now) }
}

extension Bin {
    /// The element of a bin description whose bitrate is to be set: the first known encoder, else the first element
    /// that has a bitrate.
    fileprivate var encoder: Element {
        allElements.first { KnownEncoder.named($0.factoryName) != nil }
            ?? allElements.first { BitrateProperty(of: $0) != nil } ?? self
    }
}
