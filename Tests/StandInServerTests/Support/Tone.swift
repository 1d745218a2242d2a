import GStreamerKit
import Synchronization
import WebRTCTransport

/// Sends a tone and measures the pitch of the received audio.
final class Tone: Sendable {
    private struct Heard {
        var buffers = 0
        var pitch = 0.0
    }
    private let received = Mutex(Heard())

    /// Starts sending through `connection`.
    func send(_ frequency: Int, through connection: PeerConnection, in pipeline: Pipeline) throws {
        guard let parameters = connection.audioSendParameters, let sink = connection.bin.staticPad("audio_rtp_sink")
        else {
            throw TestClient.TimedOut()
        }
        let source = try Bin(
            description:
                "audiotestsrc is-live=true freq=\(frequency) volume=0.5 ! audio/x-raw,rate=48000,channels=1 ! identity",
            ghostUnlinkedPads: true)
        let encoder = try AudioEncoderBin.make()
        let payloader = try OpusPayloader.make(parameters)
        pipeline.add([source, encoder, payloader])
        try pipeline.linkChain([source, encoder, payloader])
        try payloader.staticPad("src")?.link(sink)
        for element in [payloader, encoder, source] { element.syncStateWithParent() }
    }

    func listen(to connection: PeerConnection, in pipeline: Pipeline) throws {
        let decoder = try AudioDecoderBin.make()
        let mono = try Bin(
            description:
                "audioconvert ! audio/x-raw,format=S16LE,channels=1 ! fakesink name=end sync=false async=false",
            ghostUnlinkedPads: true)
        pipeline.add([decoder, mono])
        try decoder.link(mono)
        mono.child(named: "end")?.staticPad("sink")?.addProbe(.buffer) { [weak self] item in
            if case .buffer(let buffer) = item { _ = buffer.withBytes { self?.measure($0) } }
            return .pass
        }
        mono.syncStateWithParent()
        decoder.syncStateWithParent()
        guard let source = connection.bin.staticPad("audio_rtp_src"), let sink = decoder.staticPad("sink") else {
            throw TestClient.TimedOut()
        }
        try source.link(sink)
    }

    private func measure(_ bytes: UnsafeRawBufferPointer) {
        let samples = stride(from: 0, to: bytes.count - 1, by: 2).map {
            Int16(truncatingIfNeeded: Int(bytes[$0]) | Int(bytes[$0 + 1]) << 8)
        }
        let isLoud = samples.contains { abs(Int($0)) > 2000 }
        let rising = zip(samples, samples.dropFirst()).count { $0 < 0 && $1 >= 0 }
        received.withLock {
            $0.buffers += 1
            if isLoud, samples.count > 100 { $0.pitch = Double(rising) * 48_000 / Double(samples.count) }
        }
    }

    var buffers: Int { received.withLock(\.buffers) }
    func hears(_ frequency: Double) -> Bool { received.withLock { abs($0.pitch - frequency) < 60 } }
}
