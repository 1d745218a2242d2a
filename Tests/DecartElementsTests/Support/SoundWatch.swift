import GStreamerKit
import Glibc
import Testing

/// The sound that passes a pad (S16LE, 48 kHz, any channels of which the first counts), measured as it comes.
// @unchecked: the probe's own state is touched on the pad's streaming thread only.
final class SoundWatch: @unchecked Sendable {
    struct Seen: Sendable {
        var buffers = 0
        /// The newest of the first channel, a tenth of a second at most.
        var latest: [Float] = []
        var caps = ""
        var events: [Event.Kind] = []
        var times: [ContinuousClock.Instant] = []
        /// Running time at which the stream begins and, so far, ends.
        var first: UInt64?
        var end: UInt64?
        /// ns by which a buffer was not where the last one ended, and of those that did not say so.
        var holes: [Int64] = []
        var unsaidHoles: [Int64] = []
        var isEnded = false

        /// Root of the mean square, 0...1.
        var level: Float {
            latest.isEmpty ? 0 : sqrtf(latest.reduce(0) { $0 + $1 * $1 } / Float(latest.count))
        }

        /// How much of all that is heard is this tone, 0...1: one term of a Fourier series, by Goertzel's recurrence.
        func share(of frequency: Float) -> Float {
            guard latest.count == SoundWatch.window, level > 0.001 else { return 0 }
            let step = 2 * cosf(2 * .pi * frequency / 48_000)
            var (one, two) = (Float(0), Float(0))
            for sample in latest { (one, two) = (sample + step * one - two, one) }
            let power = one * one + two * two - step * one * two
            let count = Float(latest.count)
            return min(1, 2 * power / (count * count) / (level * level))
        }

        func sounds(_ frequency: Float) -> Bool { share(of: frequency) > 0.8 && level > 0.02 }
        var isSilent: Bool { latest.count == SoundWatch.window && level < 0.001 }
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
            case .buffer(let buffer): take(buffer)
            case .query: break
            }
            return .pass
        }
    }

    private func take(_ buffer: Buffer) {
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

    func wait(seconds: Double = 20, until condition: (Seen) -> Bool) -> Bool { seen.wait(seconds: seconds, until: condition) }
    func waitForTone(_ frequency: Float, seconds: Double = 20) -> Bool { wait(seconds: seconds) { $0.sounds(frequency) } }
    func waitForSilence(seconds: Double = 20) -> Bool { wait(seconds: seconds, until: \.isSilent) }

    /// The longest time without a buffer since `start`.
    func longestGap(since start: ContinuousClock.Instant) -> Duration {
        let times = seen.read(\.times).filter { $0 >= start }
        return zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? .zero
    }
}

/// A sound source and a sink for what comes back, on a running `decarttransform` or as part of its pipeline.
extension TransformPipeline {
    static func tone(_ frequency: Int, caps: String = "rate=48000,channels=1") -> String {
        "audiotestsrc name=tone is-live=true wave=sine freq=\(frequency) volume=0.4 samplesperbuffer=480 ! audio/x-raw,\(caps)"
    }

    /// With sound from the beginning: elements `tone` and `sound`.
    static func withSound(
        _ standIn: StandIn, _ properties: String = "", prompt: String = "film noir", frequency: Int = 440,
        sound: String? = nil, source: String = liveSource
    ) throws -> TransformPipeline {
        try TransformPipeline(
            description: """
                decarttransform name=t \(bare) base-url=\(standIn.url) api-key=\(key) \(custom) \(properties) \
                \(source) ! t.sink t.src ! fakesink name=out sync=false \
                \(sound ?? tone(frequency, caps: "rate=48000,channels=2")) ! t.audio_sink t.audio_src ! fakesink name=sound sync=false async=false
                """, settings: [("prompt", prompt)])
    }

    func watchSound() throws -> SoundWatch {
        SoundWatch(try #require(pipeline.child(named: "sound")?.staticPad("sink")))
    }
}
