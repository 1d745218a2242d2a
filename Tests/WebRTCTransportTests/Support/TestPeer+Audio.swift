import GStreamerKit
import TestSupport
import WebRTCTransport

/// Decoded audio: buffers so far, and the pitch of the last buffer that was not silent.
struct Heard: Sendable {
    var buffers = 0
    var pitch: Double?
    /// Peak level of the last buffer, 0…1.
    var level = 0.0

    func hears(_ frequency: Double) -> Bool { level > 0.05 && pitch.map { abs($0 - frequency) < 60 } ?? false }
}

extension TestPeer {
    /// Sends a tone and decodes received audio, once audio is negotiated; may be called while video flows.
    func startAudio(frequency: Int) throws {
        guard let parameters = connection.audioSendParameters else { return }
        let source = try Bin(
            description:
                "audiotestsrc is-live=true wave=sine freq=\(frequency) volume=0.5 ! audio/x-raw,rate=48000,channels=1 ! identity",
            ghostUnlinkedPads: true)
        let encoder = try AudioEncoderBin.make()
        let payloader = try OpusPayloader.make(parameters)
        let decoder = try AudioDecoderBin.make()
        let sink = try makeDrain()
        pipeline.add([source, encoder, payloader, decoder, sink])
        try pipeline.linkChain([source, encoder, payloader])
        try payloader.staticPad("src")!.link(connection.bin.staticPad("audio_rtp_sink")!)
        try connection.bin.staticPad("audio_rtp_src")!.link(decoder.staticPad("sink")!)
        try decoder.link(sink)
        let received = received
        let decoded = sink.staticPad("sink")!
        decoded.addProbe(.buffer) { [pad = decoded.unowned] item in
            if case .buffer(let buffer) = item {
                Self.listen(buffer, channels: pad.currentCaps?.first?.int("channels") ?? 1, received)
            }
            return .pass
        }
        for element in [sink, decoder, payloader, encoder, source] { element.syncStateWithParent() }
    }

    private static func listen(_ buffer: Buffer, channels: Int, _ received: Watched<Heard>) {
        var samples: [Int16] = []
        _ = buffer.withBytes { bytes in
            for at in stride(from: 0, to: bytes.count - 1, by: 2 * max(1, channels)) {
                samples.append(Int16(bitPattern: UInt16(bytes[at]) | UInt16(bytes[at + 1]) << 8))
            }
        }
        guard samples.count > 100 else { return }
        let loudest = Double(samples.map { abs(Int($0)) }.max() ?? 0) / 32768
        let rising = zip(samples, samples.dropFirst()).count { $0 < 0 && $1 >= 0 }
        received.change { received in
            received.buffers += 1
            received.level = loudest
            if loudest > 0.05 { received.pitch = Double(rising) * 48_000 / Double(samples.count) }
        }
    }

    func waitToHear(_ frequency: Double, within limit: Duration = .seconds(20)) -> Bool {
        received.wait(limit) { $0.hears(frequency) }
    }
}
