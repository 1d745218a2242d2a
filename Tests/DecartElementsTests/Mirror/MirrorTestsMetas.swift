import CGStreamer
import GStreamerKit
import Testing

extension ElementTests {
    /// Metas that describe the frame, and video metas that contradict the buffer's memory.
    @Suite(.timeLimit(.minutes(1)), .indifferentToTransport)
    struct MirrorMetas {
        private struct Rectangle: Equatable {
            var x, y, width, height: Int
        }

        private func regions(_ buffer: Buffer) throws -> [Rectangle] {
            var state: gpointer?
            var found: [Rectangle] = []
            while let meta = gst_buffer_iterate_meta_filtered(
                try RawFrame.pointer(buffer), &state, gst_video_region_of_interest_meta_api_get_type())
            {
                let region = UnsafeMutableRawPointer(meta).assumingMemoryBound(to: GstVideoRegionOfInterestMeta.self)
                    .pointee
                found.append(Rectangle(x: Int(region.x), y: Int(region.y), width: Int(region.w), height: Int(region.h)))
            }
            return found
        }

        private func crop(_ buffer: Buffer) throws -> Rectangle? {
            let meta = gst_buffer_get_meta(try RawFrame.pointer(buffer), gst_video_crop_meta_api_get_type())
            return meta.map {
                let crop = UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstVideoCropMeta.self).pointee
                return Rectangle(x: Int(crop.x), y: Int(crop.y), width: Int(crop.width), height: Int(crop.height))
            }
        }

        private func has(_ api: GType, _ buffer: Buffer) throws -> Bool {
            gst_buffer_get_meta(try RawFrame.pointer(buffer), api) != nil
        }

        private func decorated(_ frame: RawFrame) throws -> Buffer {
            let buffer = try frame.buffer()
            let raw = try RawFrame.pointer(buffer)
            gst_buffer_add_video_region_of_interest_meta(raw, "face", 2, 3, 10, 4)
            gst_buffer_add_video_region_of_interest_meta(raw, "beyond", 30, 15, 20, 20)
            gst_buffer_add_video_affine_transformation_meta(raw)
            let caps = gst_caps_new_empty_simple("timestamp/x-test")
            gst_buffer_add_reference_timestamp_meta(raw, caps, 1, 2)
            gst_caps_unref(caps)
            return buffer
        }

        @Test(arguments: [false, true], [false, true])
        func metasMoveWithTheFrame(_ turned: Bool, _ shared: Bool) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                let frame = try RawFrame("I420", 34, 18)
                try harness.set(frame)
                if turned { harness.pushTag(orientation: "rotate-90") }
                let input = try decorated(frame)
                let output = shared ? try harness.pushShared(input).output : try #require(harness.push(input))
                #expect(
                    try regions(output) == [
                        turned
                            ? Rectangle(x: 2, y: 11, width: 10, height: 4)
                            : Rectangle(x: 22, y: 3, width: 10, height: 4),
                        turned
                            ? Rectangle(x: 30, y: 0, width: 20, height: 20)
                            : Rectangle(x: 0, y: 15, width: 20, height: 20),
                    ])
                #expect(try !has(gst_video_affine_transformation_meta_api_get_type(), output))
                #expect(try has(gst_reference_timestamp_meta_api_get_type(), output))
                let expected = frame.samples(frame.flipped(turned ? .topToBottom : .leftToRight))
                #expect(same(try frame.samples(of: output), expected))
            }
        }

        @Test func passthroughLeavesThemAlone() throws {
            try MirrorHarness.run("decartmirror") { harness in
                let frame = try RawFrame("I420", 34, 18)
                try harness.set(frame)
                let output = try #require(harness.push(decorated(frame)))
                #expect(try regions(output).first == Rectangle(x: 2, y: 3, width: 10, height: 4))
                #expect(try has(gst_video_affine_transformation_meta_api_get_type(), output))
            }
        }

        /// Decoders allocate whole blocks, set caps to the visible size and add a crop meta: the crop rectangle must be
        /// mirrored too.
        @Test(arguments: [false, true])
        func aBufferLargerThanItsCaps(_ shared: Bool) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                let seen = try RawFrame("NV12", 30, 18)
                let whole = try RawFrame("NV12", 48, 32, padding: 16)
                try harness.set(seen)
                let input = try whole.buffer()
                let meta = gst_buffer_add_meta(try RawFrame.pointer(input), gst_video_crop_meta_get_info(), nil)
                let crop = try #require(
                    meta.map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstVideoCropMeta.self) })
                (crop.pointee.x, crop.pointee.y, crop.pointee.width, crop.pointee.height) = (4, 2, 30, 18)
                let output = shared ? try harness.pushShared(input).output : try #require(harness.push(input))
                #expect(try self.crop(output) == Rectangle(x: 14, y: 2, width: 30, height: 18))
                #expect(same(try whole.samples(of: output), whole.samples(whole.flipped(.leftToRight))))
            }
        }

        /// Padded rows need more bytes than the caps alone say.
        @Test func aShortFrameIsFoundByItsMeta() throws {
            try #require(ElementTests.isReady)
            let frame = try RawFrame("I420", 34, 18, padding: 16)
            let video = try #require(VideoInfo(caps: try Caps(frame.caps)))
            let whole = try frame.buffer()
            #expect(video.shortage(of: whole) == nil)
            gst_buffer_set_size(try RawFrame.pointer(whole), gssize(video.size))
            let shortage = try #require(video.shortage(of: whole))
            #expect(shortage.bytes == video.size && shortage.needed > video.size)
        }

        /// GStreamer takes it for a fault of the program to map such a frame.
        @Test func aFrameThatIsSmallerThanItsCapsIsNotMapped() throws {
            try #require(ElementTests.isReady)
            let caps = try RawFrame("I420", 64, 32).caps
            let video = try #require(VideoInfo(caps: try Caps(caps)))
            let small = try RawFrame("I420", 32, 32, padding: 64).buffer()
            Criticals.start()
            let isMapped = small.withVideoFrame(video, writable: false) { _ in true }
            #expect(Criticals.stop().isEmpty)
            #expect(isMapped == nil)
        }

        @Test func aShortFrameIsDropped() throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                let frame = try RawFrame("I420", 34, 18)
                try harness.set(frame)
                let short = try frame.buffer()
                gst_buffer_set_size(try RawFrame.pointer(short), 100)
                #expect(harness.push(short) == nil)
                #expect(try harness.push(frame.buffer()) != nil)
            }
        }

        /// A video meta that claims more memory than the buffer has costs its frame, never a crash of the host
        /// application.
        @Test(arguments: ["I420", "RGB", "P010_10LE"])
        func aMetaThatLies(_ format: String) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                let honest = try RawFrame(format, 64, 32)
                try harness.set(honest)
                for (stride, offset) in [
                    (100_000, 0), (-64, 0), (Int(Int32.max), 0), (Int(Int32.min), 0), (64 * 4, 3000),
                ] {
                    let buffer = try honest.buffer(meta: false)
                    let raw = try RawFrame.pointer(buffer)
                    let video = gst_video_format_from_string(format)
                    let planes = gst_video_format_get_info(video).pointee.n_planes
                    var offsets = [gsize](repeating: gsize(offset), count: 4)
                    var strides = [gint](repeating: gint(clamping: stride), count: 4)
                    gst_buffer_add_video_meta_full(
                        raw, GST_VIDEO_FRAME_FLAG_NONE, video, 64, 32, planes, &offsets, &strides)
                    #expect(harness.push(buffer) == nil)
                }
                #expect(same(harness.push(try honest.buffer(meta: false))?.copiedBytes, honest.flipped(.leftToRight)))
            }
        }
    }
}
