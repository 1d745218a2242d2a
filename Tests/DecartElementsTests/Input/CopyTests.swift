import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Counts the frames that are copied on the way through the element, by the addresses of their memory.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct CopyTests {
        private static func address(_ buffer: Buffer) -> UInt? {
            buffer.withBytes { UInt(bitPattern: $0.baseAddress) }
        }

        private static func record(_ pad: Pad?, in addresses: Watched<[UInt]>) {
            pad?.addProbe(.buffer) { item in
                if case .buffer(let buffer) = item, let address = Self.address(buffer) {
                    addresses.change { $0.append(address) }
                }
                return .pass
            }
        }

        private struct Seen {
            var input, inner, encoder, decoder, output: [UInt]
        }

        /// Runs a session, and returns the addresses of frames at the sink pad, behind an element of the
        /// input, at the encoder, behind the decoder and at the source pad.
        private func addresses(source: String, inner name: String? = nil) throws -> Seen {
            let (input, inner, encoder) = (Watched<[UInt]>([]), Watched<[UInt]>([]), Watched<[UInt]>([]))
            let (decoder, output) = (Watched<[UInt]>([]), Watched<[UInt]>([]))
            try TransformPipeline.runWell(with: { try .init($0, "codec=vp8", source: source) }) { pipeline, _ in
                Self.record(pipeline.transform.staticPad("sink"), in: input)
                if let name { Self.record(pipeline.pipeline.child(named: name)?.staticPad("src"), in: inner) }
                pipeline.transform.connect("encoder-setup") { arguments in
                    Self.record(arguments.first?.element?.staticPad("sink"), in: encoder)
                    return nil
                }
                // Few sinks of the base classes take strides of a frame's own, unlike those that show video.
                pipeline.sink.addProbe(.query) { item in
                    guard case .query(let query) = item, query.kind == .allocation else { return .pass }
                    query.answerFramesMayHaveStrides()
                    return .handled
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(3), "no frame came back")
                let found = pipeline.pipeline.allElements.first { $0.factoryName == "vp8dec" }
                Self.record(try #require(found).staticPad("src"), in: decoder)
                #expect(decoder.wait { $0.count >= 2 })
                Self.record(pipeline.transform.staticPad("src"), in: output)
                #expect(output.wait { $0.count >= 8 }, "only \(output.value.count) frames left")
            }
            return Seen(
                input: input.value, inner: inner.value, encoder: encoder.value, decoder: decoder.value,
                output: output.value)
        }

        @Test func noFrameInTheSentFormatIsCopied() throws {
            let source = TransformPipeline.source(
                caps: "format=I420,colorimetry=bt601,\(TransformPipeline.size),framerate=20/1")
            let seen = try addresses(source: source)
            #expect(seen.encoder.count >= 8)
            let copies = seen.encoder.filter { !seen.input.contains($0) }
            #expect(copies.isEmpty, "\(copies.count) of \(seen.encoder.count) sent frames are copies")
            let copied = seen.output.filter { !seen.decoder.contains($0) }
            // The first frames had left the decoder before the record began.
            #expect(copied.count <= 2, "\(copied.count) of \(seen.output.count) received frames are copies")
        }

        /// The last element that writes a frame is the converter.
        @Test func anotherFormatIsWrittenOnce() throws {
            let source = TransformPipeline.source(
                caps: "format=AYUV,colorimetry=bt601,\(TransformPipeline.size),framerate=20/1")
            let seen = try addresses(source: source, inner: "input-convert")
            #expect(seen.encoder.count >= 8)
            let copies = seen.encoder.filter { !seen.inner.contains($0) }
            #expect(copies.isEmpty, "\(copies.count) of \(seen.encoder.count) sent frames are copies")
        }

        /// The scaler writes each frame once, into memory that is used again.
        @Test func scaledFramesAllocateNothing() throws {
            let source = TransformPipeline.source(caps: "format=RGBA,width=480,height=270,framerate=20/1")
            let seen = try addresses(source: source)
            #expect(seen.encoder.count >= 8)
            #expect(Set(seen.encoder).count < seen.encoder.count, "no buffer is used again")
            measure("buffers", Double(Set(seen.encoder).count), atMost: 4, unit: "buffers")
            #expect(Set(seen.encoder).isDisjoint(with: seen.input))
        }
    }
}
