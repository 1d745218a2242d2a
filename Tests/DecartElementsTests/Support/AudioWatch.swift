import GStreamerKit
import Glibc
import TestSupport
import Testing

/// Measures the audio that passes a pad (S16LE, 48 kHz; of several channels only the first).
// @unchecked: only the pad's streaming thread touches `segment` and `channels`.
final class AudioWatch: @unchecked Sendable {
    struct Seen: Sendable {
        var buffers = 0
        /// Newest samples of the first channel, at most a tenth of a second.
        var latest: [Float] = []
        var caps = ""
        var events: [Event.Kind] = []
        var times: [ContinuousClock.Instant] = []
        /// Running times at which the stream starts and, so far, ends, ns.
        var first: UInt64?
        var end: UInt64?
        /// Distance of a buffer from the previous one's end, ns: of all buffers, and of those without the DISCONT flag.
        var holes: [Int64] = []
        var unsaidHoles: [Int64] = []
        var isEnded = false

        /// Root mean square, 0...1.
        var level: Float {
            latest.isEmpty ? 0 : sqrtf(latest.reduce(0) { $0 + $1 * $1 } / Float(latest.count))
        }

        /// Returns the share of the power that lies at this frequency, 0...1 (Goertzel algorithm).
        func share(of frequency: Float) -> Float {
            guard latest.count == AudioWatch.window, level > 0.001 else { return 0 }
            let step = 2 * cosf(2 * .pi * frequency / 48_000)
            var (one, two) = (Float(0), Float(0))
            for sample in latest { (one, two) = (sample + step * one - two, one) }
            let power = one * one + two * two - step * one * two
            let count = Float(latest.count)
            return min(1, 2 * power / (count * count) / (level * level))
        }

        func sounds(_ frequency: Float) -> Bool { share(of: frequency) > 0.8 && level > 0.02 }
        var isSilent: Bool { latest.count == AudioWatch.window && level < 0.001 }
    }
    static let window = 4800
    let seen = Watched(Seen())
    private var segment: Event?
    private var channels = 1

    init(_ pad: Pad) {
        pad.addProbe([.buffer, .downstreamEvent]) { [self] item in
            switch item {
            case .event(let event):
                if event.kind == .segment { segment = event }
                if let caps = event.caps {
                    channels = max(1, caps.first?.int("channels") ?? 1)
                    seen.change { $0.caps = caps.description }
                }
                seen.change { seen in
                    seen.events.append(event.kind)
                    if event.kind == .eos { seen.isEnded = true }
                }
            case .buffer(let buffer): record(buffer)
            case .query: break
            }
            return .pass
        }
    }

    private func record(_ buffer: Buffer) {
        let start = buffer.pts.flatMap { segment?.runningTime(of: $0) }
        let samples = buffer.withBytes { bytes in
            stride(from: 0, to: bytes.count - 1, by: 2 * channels).map {
                Float(Int16(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: Int16.self))) / 32768
            }
        }
        let isDiscontinuous = buffer.isDiscontinuous
        seen.change { seen in
            seen.buffers += 1
            seen.times.append(.now)
            seen.latest += samples ?? []
            seen.latest.removeFirst(max(0, seen.latest.count - Self.window))
            guard let start else { return }
            if let end = seen.end, abs(Int64(start) - Int64(end)) > 1000 {
                seen.holes.append(Int64(start) - Int64(end))
                if !isDiscontinuous { seen.unsaidHoles.append(Int64(start) - Int64(end)) }
            }
            if seen.first == nil { seen.first = start }
            seen.end = start + UInt64(samples?.count ?? 0) * 1_000_000_000 / 48_000
        }
    }

    func wait(until condition: (Seen) -> Bool) -> Bool { seen.wait(until: condition) }
    func waitForTone(_ frequency: Float) -> Bool { wait { $0.sounds(frequency) } }
    func waitForSilence() -> Bool { wait(until: \.isSilent) }

    /// Returns the longest time without a buffer since `start`.
    func longestGap(since start: ContinuousClock.Instant) -> Duration {
        let times = seen.read(\.times).filter { $0 >= start }
        return zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? .zero
    }
}

/// Pipelines with an audio source, and a sink for the audio that comes back.
extension TransformPipeline {
    static func tone(_ frequency: Int, caps: String = "rate=48000,channels=1") -> String {
        "audiotestsrc name=tone is-live=true wave=sine freq=\(frequency) volume=0.4 samplesperbuffer=480 ! audio/x-raw,\(caps)"
    }

    /// Makes a pipeline with an audio source `tone` and an audio sink from the start.
    static func withAudio(
        _ standIn: StandIn, _ properties: String = "", prompt: String = "film noir", frequency: Int = 440,
        audio: String? = nil, source: String = liveSource
    ) throws -> TransformPipeline {
        try TransformPipeline(
            description: """
                decarttransform name=t \(bare) base-url=\(standIn.url) api-key=\(key) \(custom) \(properties) \
                \(source) ! t.sink t.src ! fakesink name=out sync=false \
                \(audio ?? tone(frequency, caps: "rate=48000,channels=2")) ! t.audio_sink t.audio_src ! fakesink name=audio-out sync=false async=false
                """, settings: [("prompt", prompt)])
    }

    /// A viewer with a sink for the audio.
    static func hearingViewer(_ standIn: StandIn, _ token: String) throws -> TransformPipeline {
        try TransformPipeline(
            description: """
                decartsrc name=t \(bare) base-url=\(standIn.url) api-key=\(key) \(custom) subscribe-token=\(token) \
                t.src ! fakesink name=out sync=false \
                t.audio_src ! fakesink name=audio-out sync=false async=false
                """)
    }

    func watchAudio() throws -> AudioWatch {
        AudioWatch(try #require(pipeline.child(named: "audio-out")?.staticPad("sink")))
    }
}
