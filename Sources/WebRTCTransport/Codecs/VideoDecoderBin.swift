package import GStreamerKit
package import RTP

/// RTP in ("sink"), raw video out ("src"): depayloader and decoder. They request keyframes instead of showing damage.
package enum VideoDecoderBin {
    /// - Parameters:
    ///   - choice: nil: Debian's decoder, whatever the ranks are. The stand-in and the tests, which judge the elements, use it.
    ///   - timer: measures the decoder.
    ///   - keepsTrailers: decoded frames have the trailer of the encoded one (see `FrameTrailer`) in its meta `trailer`.
    package static func make(
        codec: VideoCodec, choice: DecoderChoice? = nil, timer: CodingTimer? = nil, keepsTrailers: Bool = false
    ) throws(GStreamerError) -> Bin {
        let choice = if let choice { choice } else { try codec.standardDecoder }
        let bin = Bin()
        let depayloader = try makeDepayloader(codec, keepsTrailers: keepsTrailers)
        let decoder = try Element(factory: choice.factory)
        timer?.attach(to: decoder)
        decoder.set("threads", 1)
        decoder.set("max-threads", 1)
        decoder.set("automatic-request-sync-points", true)
        decoder.set("discard-corrupted-frames", true)
        decoder.set("output-corrupt", false)
        decoder.set("qos", false)
        // A broken stream causes a keyframe request, never an error that stops the pipeline.
        decoder.set("max-errors", "-1")
        var elements = [depayloader]
        // The probe sees parameter sets in a byte-stream; in caps they would have passed before the frame.
        if codec == .h264 || codec == .h265 { elements.append(try EncodedVideoBin.filter(codec, "byte-stream")) }
        if let parser = choice.parser { elements.append(try Element(factory: parser)) }
        elements += [decoder] + (try VideoMemory.adapter(from: decoder))
        try bin.hold(elements)
        limitFrames(codec, depayloader)
        return bin
    }

    /// The element behind a decoder that sets the colorimetry which the decoder leaves open; nil: the decoder sets it.
    package static func makeColorimetry(_ codec: VideoCodec) throws(GStreamerError) -> Element? {
        guard codec == .vp8 else { return nil }
        // RFC 6386 9.2: VP8 is BT.601, limited range. GStreamer's guess by the size may be wrong.
        let colorimetry = try Element(factory: "capssetter")
        colorimetry.set("caps", caps: try Caps("video/x-raw, colorimetry=(string)bt601"))
        return colorimetry
    }

    /// After a loss it requests a keyframe, and drops the frames until that arrives.
    static func makeDepayloader(_ codec: VideoCodec, keepsTrailers: Bool = false) throws(GStreamerError) -> Element {
        let depayloader = try Element(factory: codec.depayloader)
        depayloader.set("request-keyframe", true)
        depayloader.set("wait-for-keyframe", true)
        removeTrailers(depayloader, keeping: keepsTrailers)
        if codec == .vp9 { joinLayers(depayloader) }
        if codec == .h264 || codec == .h265 { requestMissingKeyframe(codec, depayloader) }
        return depayloader
    }

    private static func joinLayers(_ depayloader: Element) {
        // Both probes run on the stream's thread.
        nonisolated(unsafe) var joiner = VP9LayerJoiner()
        depayloader.staticPad("sink")?.addProbe(.buffer) { item in
            guard case .buffer(let packet) = item, let bytes = packet.withBytes({ joiner.correct($0) }) ?? nil else {
                return .pass
            }
            let corrected = bytes.withUnsafeBytes(Buffer.init(copying:))
            (corrected.pts, corrected.dts) = (packet.pts, packet.dts)
            corrected.isDiscontinuous = packet.isDiscontinuous
            return .replace(corrected)
        }
        // The depayloader pushes a frame while it handles the last packet.
        depayloader.staticPad("src")?.addProbe(.buffer) { item in
            guard case .buffer(let frame) = item, frame.withBytes({ VideoCodec.vp9Index($0) == nil }) ?? false else {
                return .pass
            }
            return frame.appending(joiner.index(frameSize: frame.size)).map { .replace($0) } ?? .drop
        }
    }

    /// Requests a keyframe as soon as the stream's first frame does not leave, and then each second of the stream in
    /// which packets arrive and no frame leaves. rtph264depay requests one only after a gap, unlike those of VP8 and VP9, and
    /// rtph265depay never. They see no gap if the packets before their first one were lost, for example because they came
    /// before the SRTP keys, and then wait for a keyframe that nothing requests. If those packets had the parameter sets of
    /// the first keyframe, they pass the rest, without which no decoder decodes this and all later frames: these are
    /// dropped. So are frames that lack packets (`AccessUnitGate`).
    private static func requestMissingKeyframe(_ codec: VideoCodec, _ depayloader: Element) {
        guard let packets = depayloader.staticPad("sink"), let frames = depayloader.staticPad("src") else { return }
        let interval: ClockTime = 1_000_000_000
        // Both probes run on the stream's thread.
        nonisolated(unsafe) var waitingSince: ClockTime?
        nonisolated(unsafe) var isFirstFrame = true
        // A sequence parameter set (type 7, H.265: 33) precedes the other set and the frame.
        nonisolated(unsafe) var hasSequenceSet = false
        nonisolated(unsafe) var gate = AccessUnitGate(codec: codec)
        nonisolated(unsafe) var lastTime: ClockTime?
        frames.addProbe(.buffer) { [own = frames.unowned] item in
            if case .buffer(let frame) = item {
                switch frame.withBytes({ gate.judge($0, time: frame.pts) }) ?? .pass {
                case .pass: break
                case .drop: return .drop
                case .requestKeyframe:
                    // Else one is requested already.
                    if hasSequenceSet, codec == .h264 { own.send(Event.forceKeyUnitUpstream()) }
                    return .drop
                }
            }
            if !hasSequenceSet, case .buffer(let frame) = item {
                hasSequenceSet =
                    frame.withBytes { bytes in
                        EncodedVideoReader.units(in: bytes).contains {
                            let first = bytes[$0.lowerBound]
                            return codec == .h265 ? first >> 1 & 0x3f == 33 : first & 0x1f == 7
                        }
                    } ?? false
                guard hasSequenceSet else { return .drop }
            }
            waitingSince = nil
            isFirstFrame = false
            return .pass
        }
        packets.addProbe(.buffer) { [own = frames.unowned] item in
            guard case .buffer(let packet) = item, let time = packet.pts else { return .pass }
            if packet.isDiscontinuous || gate.isWatching {
                packet.withBytes {
                    gate.see($0, time: time, before: lastTime, isDiscontinuous: packet.isDiscontinuous)
                }
            }
            lastTime = time
            // rtph265depay has no `wait-for-keyframe`. The parameter sets stay, without which x265enc makes a requested keyframe.
            if codec == .h265, packet.isDiscontinuous, hasSequenceSet, gate.waitForKeyframe() {
                own.send(Event.forceKeyUnitUpstream())
            }
            guard let since = waitingSince, time >= since else {
                waitingSince = time
                return .pass
            }
            // A packet of the next frame, and the first one has not left.
            if isFirstFrame && time > since || time - since >= interval {
                isFirstFrame = false
                waitingSince = time
                own.send(Event.forceKeyUnitUpstream())
            }
            return .pass
        }
    }

    /// Removes the trailers that LiveKit's clients append: a VP9 decoder rejects each frame that has one.
    private static func removeTrailers(_ depayloader: Element, keeping: Bool) {
        depayloader.staticPad("src")?.addProbe(.buffer) { item in
            guard case .buffer(let frame) = item else { return .pass }
            let size = frame.size
            let found = frame.withSuffix(FrameTrailer.envelope) { FrameTrailer.length(end: $0, frameSize: size) }
            guard let length = found else { return .pass }
            guard length < size, let rest = frame.droppingLast(length) else { return .drop }
            if keeping { rest[.trailer] = frame.suffix(length) }
            return .replace(rest)
        }
    }

    /// Drops oversized frames, because the decoder would allocate for them first. Each drop requests a keyframe; after
    /// three oversized frames in a row the depayloader posts an error.
    static func limitFrames(_ codec: VideoCodec, _ depayloader: Element) {
        guard let frames = depayloader.staticPad("src") else { return }
        // Only for the stream's thread.
        nonisolated(unsafe) var gate = FrameGate(codec: codec)
        frames.addProbe(.buffer) { [own = frames.unowned, owner = depayloader.unowned] item in
            guard case .buffer(let buffer) = item else { return .pass }
            switch buffer.withBytes({ gate.judge($0) }) ?? .drop {
            case .pass: return .pass
            case .drop: break
            case .fail(let size):
                let claim = size.map { "\($0.width)x\($0.height)" } ?? "an unreadable number of"
                owner.postError(
                    ElementProblem(
                        .streamFormat,
                        "The service sends frames of \(claim) pixels; the limit is \(FrameSize.maximumSide)x"
                            + "\(FrameSize.maximumPixels / FrameSize.maximumSide)."))
            }
            own.send(Event.forceKeyUnitUpstream())
            return .drop
        }
    }
}
