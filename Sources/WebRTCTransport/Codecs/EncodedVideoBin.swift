// The ends of a connection for video that is neither encoded nor decoded here.
package import GStreamerKit
package import RTP

package enum EncodedVideoBin {
    /// Encoded frames in ("sink"; H.264 as a byte-stream of access units), RTP out ("src"). A remote peer's keyframe
    /// request leaves "sink" as a force-key-unit event.
    package static func makeSender(_ parameters: RTPSendParameters) throws(GStreamerError) -> Bin {
        let bin = Bin()
        let payloader = try VideoPayloader.make(parameters)
        // The sender of the frames repeats the parameter sets.
        payloader.set("config-interval", 0)
        try bin.hold([payloader])
        return bin
    }

    /// RTP in ("sink"), encoded frames out ("src"). The first frame, and the first one after a loss, is a keyframe; the
    /// bin requests it.
    /// - Parameter h264Format: `stream-format` of H.264 frames, which then have parameter sets in front of each keyframe
    ///   and caps with profile and size; nil: a byte-stream, unparsed.
    package static func makeReceiver(_ codec: VideoCodec, h264Format: String? = nil) throws(GStreamerError) -> Bin {
        let bin = Bin()
        let depayloader = try VideoDecoderBin.makeDepayloader(codec)
        var elements = [depayloader]
        if codec == .h264 {
            joinSlicelessUnits(depayloader)
            elements.append(try filter(codec, "byte-stream"))
            if let h264Format {
                let parser = try Element(factory: "h264parse")
                parser.set("config-interval", "-1")
                elements += [parser, try filter(codec, h264Format)]
            }
        }
        try bin.hold(elements)
        VideoDecoderBin.limitFrames(codec, depayloader)
        return bin
    }

    /// Joins an access unit without a slice, such as parameter sets that a sender marks as the end of a frame, with the frame
    /// that follows. Alone it would be a frame that shows nothing, at a time of its own.
    private static func joinSlicelessUnits(_ depayloader: Element) {
        /// A sender that never sends a slice must not fill the memory.
        let maximum = 65_536
        /// Parameter sets are shorter, so that most frames need not be searched.
        let longest = 1024
        // Only for the stream's thread.
        nonisolated(unsafe) var held: (bytes: [UInt8], isDiscontinuous: Bool)?
        depayloader.staticPad("src")?.addProbe(.buffer) { item in
            guard case .buffer(let frame) = item else { return .pass }
            let hasSlice = frame.size > longest || frame.withBytes(EncodedVideoReader.hasSlice) ?? true
            guard held != nil || !hasSlice else { return .pass }
            // Moved, not copied: each packet may be such a unit.
            var (bytes, isDiscontinuous) = held ?? ([], false)
            held = nil
            _ = frame.withBytes { bytes.append(contentsOf: $0) }
            isDiscontinuous = isDiscontinuous || frame.isDiscontinuous
            guard hasSlice else {
                held = (bytes.count <= maximum ? bytes : [], isDiscontinuous)
                return .drop
            }
            let whole = bytes.withUnsafeBytes(Buffer.init(copying:))
            (whole.pts, whole.dts, whole.duration) = (frame.pts, frame.dts, frame.duration)
            (whole.isDeltaUnit, whole.isDiscontinuous) = (frame.isDeltaUnit, isDiscontinuous)
            whole[.trailer] = frame[.trailer]
            return .replace(whole)
        }
    }

    static func filter(_ codec: VideoCodec, _ format: String) throws(GStreamerError) -> Element {
        let filter = try Element(factory: "capsfilter")
        filter.set("caps", caps: try Caps(byteCaps(codec, format)))
        return filter
    }

    private static func byteCaps(_ codec: VideoCodec, _ format: String) -> String {
        "video/x-\(codec.rawValue), stream-format=(string)\(format), alignment=(string)au"
    }

    /// Caps of the frames that `makeSender` takes.
    package static func senderCaps(_ codec: VideoCodec) -> String {
        codec == .h264 ? byteCaps(codec, "byte-stream") : "video/x-\(codec.rawValue)"
    }
}
