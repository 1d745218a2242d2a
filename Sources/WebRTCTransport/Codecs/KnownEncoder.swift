// The encoders that follow the bitrate target, and how each is set up for live video. Values only: this file knows no
// element. Names, units and ranges are those of the plugins' own documentation (GStreamer 1.22 to 1.28, NVIDIA's
// gst-nvvideo4linux2, gstreamer-rockchip); docs/GUIDE.md has the same table, which scripts/check_docs compares.

package import RTP

package struct KnownEncoder: Sendable, Equatable {
    package struct Setting: Sendable, Equatable {
        package let property: String
        package let value: String
    }

    package let factory: String
    package let codec: VideoCodec
    package let bitrate: BitrateProperty
    /// Puts the periodic keyframe as far away as the encoder can: keyframes come on request, because each one costs a
    /// burst of packets and a spike of CPU.
    package let keyframes: [Setting]
    /// Low latency and a constant bitrate. An element without one of these properties keeps its own behaviour.
    package let settings: [Setting]
    /// True if the element begins a new GOP, with a keyframe, when its bitrate changes.
    package let restartsAtNewBitrate: Bool
    /// How an encoder that runs on the CPU divides its bitrate among the frames; nil: its setting is not corrected.
    package enum Budget: Sendable, Equatable { case byFrames, byTime }
    package let budget: Budget?

    private init(
        _ factory: String, _ codec: VideoCodec, _ bitrate: BitrateProperty, keyframes: [(String, String)],
        _ settings: [(String, String)], restarts: Bool = false, budget: Budget? = nil
    ) {
        (self.factory, self.codec, self.bitrate, restartsAtNewBitrate) = (factory, codec, bitrate, restarts)
        self.budget = budget
        self.keyframes = keyframes.map { Setting(property: $0.0, value: $0.1) }
        self.settings = settings.map { Setting(property: $0.0, value: $0.1) }
    }

    package static func named(_ factory: String?) -> KnownEncoder? { all.first { $0.factory == factory } }

    package static let all: [KnownEncoder] = [
        // The buffer of 120 ms bounds keyframes: large ones are paced, so that a session's first frame waits for them.
        KnownEncoder(
            "x264enc", .h264, .kbit("bitrate"), keyframes: [("key-int-max", "2560")],
            [
                ("tune", "zerolatency"), ("speed-preset", "ultrafast"), ("bframes", "0"), ("byte-stream", "true"),
                // No receiver of RTP needs the delimiter, which takes a packet of its own in each frame of several.
                ("aud", "false"),
                ("threads", "1"), ("sliced-threads", "false"), ("vbv-buf-capacity", "120"),
                // The deblocking filter, which the preset leaves out, costs 1 to 3 ms of a core for a frame of 720p, and
                // gains 0.4 dB at 3.5 Mbit/s and 1 dB at 1 Mbit/s. The next presets double the CPU for another 0.1 dB.
                ("option-string", "scenecut=0:no-deblock=0"),
            ], budget: .byFrames),
        KnownEncoder(
            "openh264enc", .h264, .bit("bitrate"), keyframes: [("gop-size", "2560")],
            [
                ("complexity", "low"), ("rate-control", "bitrate"), ("multi-thread", "1"),
                ("scene-change-detection", "false"), ("max-bitrate", "0"),
            ], budget: .byTime),
        KnownEncoder("vah264enc", .h264, .kbit("bitrate"), keyframes: vaKeyframes, vaH264, restarts: true),
        KnownEncoder("vah264lpenc", .h264, .kbit("bitrate"), keyframes: vaKeyframes, vaH264, restarts: true),
        KnownEncoder(
            "vaapih264enc", .h264, .kbit("bitrate"), keyframes: [("keyframe-period", "2560")],
            [("rate-control", "cbr"), ("max-bframes", "0"), ("cpb-length", "300")], restarts: true),
        KnownEncoder("nvh264enc", .h264, .kbit("bitrate"), keyframes: [("gop-size", "-1")], nvcodec, restarts: true),
        KnownEncoder(
            "nvcudah264enc", .h264, .kbit("bitrate"), keyframes: [("gop-size", "-1")], nvcodec, restarts: true),
        KnownEncoder(
            "nvv4l2h264enc", .h264, .bit("bitrate"), keyframes: nvv4l2Keyframes,
            nvv4l2 + [("insert-sps-pps", "true"), ("num-B-Frames", "0")]),
        KnownEncoder(
            "v4l2h264enc", .h264, .bit("extra-controls", field: "video_bitrate"), keyframes: [],
            [
                (
                    "extra-controls",
                    "controls,video_bitrate_mode=1,video_b_frames=0,h264_i_frame_period=60,video_gop_size=60,"
                        + "repeat_sequence_header=1"
                )
            ]),
        KnownEncoder(
            "qsvh264enc", .h264, .kbit("bitrate"), keyframes: [("gop-size", "2560")],
            [("rate-control", "cbr"), ("low-latency", "true"), ("b-frames", "0")], restarts: true),
        KnownEncoder(
            "mpph264enc", .h264, .bit("bps"), keyframes: [("gop", "2560")],
            [("rc-mode", "cbr"), ("header-mode", "each-idr")]),
        // At 720p, a frame takes 6 ms of a core at 0.5 Mbit/s and 12 ms at 3.5 with a cpu-used of -6, which libwebrtc has
        // too; 5.6 and 7.5 ms with -12, which has 1 dB less at 0.5 Mbit/s and spends 7 % more than that; 224 ms by default.
        KnownEncoder(
            "vp8enc", .vp8, .bit("target-bitrate"), keyframes: libvpxKeyframes, libvpx + [("cpu-used", "-6")],
            budget: .byTime),
        // At 720p, a cpu-used of 9 takes 14 ms of a core for a frame and 8 takes 20 ms, with the same PSNR.
        KnownEncoder(
            "vp9enc", .vp9, .bit("target-bitrate"), keyframes: libvpxKeyframes,
            libvpx + [("cpu-used", "9"), ("row-mt", "false")], budget: .byTime),
        KnownEncoder(
            "vavp9enc", .vp9, .kbit("bitrate"), keyframes: vaKeyframes,
            [("rate-control", "cbr"), ("hierarchical-level", "1")], restarts: true),
        KnownEncoder(
            "qsvvp9enc", .vp9, .kbit("bitrate"), keyframes: [("gop-size", "2560")],
            [("rate-control", "cbr"), ("low-latency", "true")], restarts: true),
        KnownEncoder(
            "v4l2vp8enc", .vp8, .bit("extra-controls", field: "video_bitrate"), keyframes: [],
            [("extra-controls", "controls,video_bitrate_mode=1,video_gop_size=60")]),
        KnownEncoder("nvv4l2vp8enc", .vp8, .bit("bitrate"), keyframes: nvv4l2Keyframes, nvv4l2),
        KnownEncoder("nvv4l2vp9enc", .vp9, .bit("bitrate"), keyframes: nvv4l2Keyframes, nvv4l2),
    ]

    private static let libvpxKeyframes = [("keyframe-max-dist", "2000"), ("keyframe-mode", "auto")]
    /// What an encoder sends above its target, the buffer's length, stands in the queue of a narrow path.
    private static let libvpx = [
        ("deadline", "1"), ("threads", "1"), ("lag-in-frames", "0"), ("end-usage", "cbr"), ("buffer-size", "300"),
        ("buffer-initial-size", "150"), ("buffer-optimal-size", "200"), ("undershoot", "95"), ("overshoot", "15"),
        ("max-intra-bitrate", "300"), ("error-resilient", "default"),
    ]
    /// The longest GOP that the VA encoders accept; 0 would be one of their own choice.
    private static let vaKeyframes = [("key-int-max", "1024")]
    private static let vaH264 = [("rate-control", "cbr"), ("b-frames", "0")]
    /// `tune` exists from 1.24 on, where the preset is deprecated; before, the preset alone asks for low latency.
    private static let nvcodec = [
        ("preset", "low-latency-hq"), ("tune", "ultra-low-latency"), ("rc-mode", "cbr"), ("zerolatency", "true"),
        ("bframes", "0"), ("rc-lookahead", "0"),
    ]
    private static let nvv4l2Keyframes = [("iframeinterval", "2560"), ("idrinterval", "2560")]
    private static let nvv4l2 = [
        ("control-rate", "constant_bitrate"), ("preset-level", "UltraFastPreset"), ("maxperf-enable", "true"),
    ]
}

package struct BitrateProperty: Sendable, Equatable {
    package enum Unit: Sendable { case bit, kbit }

    package let name: String
    package let unit: Unit
    /// The field with the bitrate, if the property is a GstStructure; nil: the property is a number.
    package let field: String?

    package init(name: String, unit: Unit, field: String? = nil) {
        (self.name, self.unit, self.field) = (name, unit, field)
    }

    static func bit(_ name: String, field: String? = nil) -> BitrateProperty {
        BitrateProperty(name: name, unit: .bit, field: field)
    }
    static func kbit(_ name: String) -> BitrateProperty { BitrateProperty(name: name, unit: .kbit) }

    /// The property's value for a bitrate in bit/s, within the property's range; at least 1, because 0 leaves the
    /// choice to many encoders.
    package func value(for bitrate: Int, in range: ClosedRange<Int>) -> Int {
        let scaled = unit == .bit ? bitrate : bitrate / 1000
        return min(max(scaled, 1, range.lowerBound), range.upperBound)
    }
}
