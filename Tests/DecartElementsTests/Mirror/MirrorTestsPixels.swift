import CGStreamer
import GStreamerKit
import Testing

extension ElementTests {
    /// Exact samples, against the reference flip, and against videoflip where it knows the format.
    @Suite(.timeLimit(.minutes(2)), .indifferentToTransport)
    struct MirrorPixels {
        static let formats = [
            "I420", "YV12", "Y42B", "Y444", "NV12", "NV21", "NV16", "YUY2", "UYVY", "YVYU", "VYUY", "AYUV", "RGB",
            "BGR",
            "RGBx", "BGRx", "xRGB", "xBGR", "RGBA", "BGRA", "ARGB", "ABGR", "GRAY8", "GRAY16_LE", "GRAY16_BE",
            "I420_10LE", "I420_10BE", "I420_12LE", "I420_12BE", "I422_10LE", "I422_10BE", "I422_12LE", "I422_12BE",
            "Y444_10LE", "Y444_10BE", "Y444_12LE", "Y444_12BE", "Y444_16LE", "Y444_16BE",
            "P010_10LE", "P010_10BE", "P012_LE", "P012_BE", "P016_LE", "P016_BE",
        ]

        /// Widths shorter than any vector, and around the vector sizes and their multiples, odd and even.
        static let sizes = [
            (1, 1), (2, 2), (3, 5), (5, 2), (15, 3), (16, 4), (17, 6), (31, 5), (32, 2), (33, 3), (47, 4), (48, 5),
            (64, 6),
            (65, 3), (101, 7), (130, 9), (322, 5),
        ]

        @Test(arguments: formats)
        func everyFormat(_ format: String) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                for turned in [false, true] {
                    harness.pushTag(orientation: turned ? "rotate-90" : "rotate-180")
                    for (width, height) in Self.sizes {
                        for padding in [0, 7, 64] {
                            let frame = try RawFrame(format, width, height, padding: padding, seed: UInt64(width))
                            try check(frame, turned ? .topToBottom : .leftToRight, in: harness)
                        }
                    }
                }
            }
        }

        @Test(arguments: ["I420", "NV12", "YUY2", "RGB", "BGRA", "P010_10LE"])
        func rowsFromTheBottomUp(_ format: String) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                for padding in [0, 5] {
                    let frame = try RawFrame(format, 37, 11, padding: padding, upsideDown: true)
                    try check(frame, .leftToRight, in: harness)
                }
            }
        }

        /// A row may be swapped only with a row of its own field; a horizontal flip ignores fields.
        @Test(arguments: ["I420", "NV12", "YUY2", "RGBA"])
        func interlaced(_ format: String) throws {
            for (turned, height) in [(false, 9), (true, 8), (true, 9), (true, 10), (true, 1)] {
                try MirrorHarness.run("decartmirror mode=on") { harness in
                    if turned { harness.pushTag(orientation: "rotate-270") }
                    var frame = try RawFrame(format, 20, height, padding: 4)
                    frame.isInterlaced = true
                    try check(frame, turned ? .topToBottom : .leftToRight, in: harness)
                }
            }
        }

        private func check(_ frame: RawFrame, _ axis: RawFrame.Axis, in harness: MirrorHarness) throws {
            try harness.set(frame)
            let expected = frame.flipped(axis)
            let what: Comment =
                "\(frame.format) \(frame.width)x\(frame.height), strides \(frame.strides), \(axis)"

            // Writable: flipped in place, and no byte outside the frame changes.
            let buffer = try frame.buffer(meta: frame.hasOwnLayout)
            let raw = buffer.raw
            let inPlace = try #require(harness.push(buffer), what)
            #expect(inPlace.raw == raw, what)
            #expect(same(inPlace.copiedBytes, expected), what)

            // Shared: the output is another buffer, and the input stays unchanged.
            let shared = try harness.pushShared(try frame.buffer(meta: frame.hasOwnLayout))
            #expect(!shared.isSameBuffer, what)
            #expect(same(shared.input, frame.bytes), what)
            #expect(same(try frame.samples(of: shared.output), frame.samples(expected)), what)
        }

        /// videoflip is an independent implementation: it would reveal an error that element and reference flip share.
        @Test(arguments: formats)
        func asVideoflipDoes(_ format: String) throws {
            guard !format.hasPrefix("P01"), !["Y42B", "NV16", "VYUY", "Y444_16LE", "Y444_16BE"].contains(format) else {
                return
            }
            for (width, height) in [(64, 48), (66, 10), (65, 47), (7, 3)] {
                let frame = try RawFrame(format, width, height)
                var results: [[UInt8]] = []
                for description in ["decartmirror mode=on", "videoflip video-direction=horiz"] {
                    try MirrorHarness.run(description) { harness in
                        try harness.set(frame)
                        _ = harness.push(try frame.buffer(meta: false))
                        let output = try #require(harness.push(frame.buffer(meta: false)))
                        results.append(try frame.samples(of: output))
                    }
                }
                #expect(same(results[0], results[1]), "\(format) \(width)x\(height)")
                #expect(!same(results[0], frame.samples(frame.bytes)))
            }
        }

        /// Every row length in which a block of a vector kernel can end: such tails are where kernels err.
        @Test(arguments: ["GRAY8", "GRAY16_LE", "RGB", "RGBA", "YUY2", "UYVY"])
        func everyWidth(_ format: String) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                for width in 1..<200 {
                    let frame = try RawFrame(format, width, 2, padding: width % 5, seed: UInt64(width))
                    try check(frame, .leftToRight, in: harness)
                }
            }
        }
    }
}
