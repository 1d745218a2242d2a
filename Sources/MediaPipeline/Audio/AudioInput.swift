// Converts any raw audio to the encoder's format, on a streaming thread of its own: the counterpart of `InputChain`. Opus
// packets pass by that, on upstream's thread. Buffers end in `deliver`, which never blocks and never fails.
import GStreamerKit
import Synchronization
import WebRTCTransport

/// Samples in the encoder's format, or an Opus packet.
struct AudioFrame {
    let buffer: Buffer
    /// Number of channels; 0 for an Opus packet.
    let channels: Int
    let runningTime: ClockTime?
    /// Duration of an Opus packet, ns; nil: samples.
    var packet: ClockTime?
}

// @unchecked: elements and pads lock themselves; `format` belongs to the queue's thread, `layout` and `warnings` to upstream's.
package final class AudioInput: @unchecked Sendable {
    package static let rawCaps = "audio/x-raw"
    /// Caps of the sink pad and of its template.
    package static let caps = "\(rawCaps); \(OpusPacket.caps)"

    let pad: GhostPad
    private let gate: InputGate
    private let queue: Element
    private let elements: [Element]
    private let end = Pad(name: "audio_raw_out", direction: .sink)
    private let element: ElementHandle

    /// The kind of audio that the last caps announce.
    private enum Kind: UInt8, AtomicRepresentable { case unknown, samples, packets }
    private let kind = Atomic(Kind.unknown)
    /// A stream has begun, and not ended.
    private let hasBegun = Atomic(false)
    /// The layout of raw audio. The channels of planar audio come one after the other, which takes a GstAudioMeta.
    private var layout: (sampleBytes: Int, isPlanar: Bool) = (1, false)
    /// Limits warnings about buffers that cannot be read as the caps say.
    private var warnings = Throttle(.seconds(60))
    /// Segment and channels of the converted samples.
    private var format: (segment: Event?, channels: Int) = (nil, 1)
    private let deliver: @Sendable (AudioFrame) -> Void

    /// Adds everything to the element except the pad, which `add` makes visible.
    init(
        in element: ElementHandle, template: String, gate: InputGate,
        pass: @escaping @Sendable (Event, Event.Passage) -> Void, onEnd: @escaping @Sendable () -> Void,
        deliver: @escaping @Sendable (AudioFrame) -> Void
    ) throws(GStreamerError) {
        self.element = element
        self.gate = gate
        self.deliver = deliver
        queue = try Element(factory: "queue", name: "audio-queue")
        queue.set("max-size-buffers", 0)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "200000000")
        let convert = try Element(factory: "audioconvert", name: "audio-convert")
        let resample = try Element(factory: "audioresample", name: "audio-resample")
        let filter = try Element(factory: "capsfilter", name: "audio-plain")
        filter.set("caps", caps: try Caps(AudioFormat.sentCaps))
        elements = [queue, convert, resample, filter]
        guard let pad = element.makeGhostPad(template: template), let entry = queue.staticPad("sink"),
            let exit = filter.staticPad("src")
        else { throw GStreamerError(.linkFailed, "the audio queue has no pads") }
        self.pad = pad
        watch(pass, onEnd)
        answerCaps(entry)
        watchEnd()
        let bin = element.unowned
        bin.add(elements)
        do throws(GStreamerError) {
            try bin.linkChain(elements)
            try exit.link(end)
        } catch {
            removeElements()
            throw error
        }
        gate.onLiveness { [queue] isLive in queue.set("leaky", isLive ? "downstream" : "no") }
        // Weak, because the gate's liveness handler retains the queue.
        queue.connect("overrun") { [weak gate] _ in
            if gate?.isLive == true { gate?.countDropped() }
            return nil
        }
        pad.setTarget(entry)
    }

    /// Opus packets come, or will come as far as upstream's caps show.
    var takesPackets: Bool {
        let kind = kind.load(ordering: .acquiring)
        guard kind == .unknown, pad.isLinked else { return kind == .packets }
        let possible = pad.queryPeerCaps(filter: nil)
        return !possible.isEmpty && !possible.isAny
            && possible.structures.allSatisfy { $0.name == OpusPacket.capsName }
    }

    /// Upstream is linked, and its stream has not ended.
    var isComing: Bool { pad.isLinked && hasBegun.load(ordering: .acquiring) }

    func add(isActive: Bool) {
        for element in elements.reversed() { element.syncStateWithParent() }
        if isActive { pad.setActive(true) }
        element.unowned.add(pad)
    }

    /// Installs the gate on the sink pad; the probe runs on upstream's streaming thread.
    /// - Parameter pass: takes what is not the input's own to downstream.
    private func watch(
        _ pass: @escaping @Sendable (Event, Event.Passage) -> Void, _ onEnd: @escaping @Sendable () -> Void
    ) {
        // `own` is unretained: the pad owns the probe, so a reference would be a cycle.
        let (own, gate, element) = (pad.unowned, gate, element)
        gate.onKept { [weak self] buffer, _ in
            guard let self else { return }
            guard self.kind.load(ordering: .relaxed) != .packets else { return self.deliver(packet: buffer) }
            own.passOn(buffer)
        }
        pad.splitBufferLists()
        pad.addProbe([.buffer, .downstreamEvent, .flushEvent]) { [weak self, weak gate] item in
            guard let self, let gate else { return .drop }
            let kind = self.kind.load(ordering: .relaxed)
            guard case .event(let event) = item else {
                guard case .buffer(let buffer) = item else { return .pass }
                guard kind != .unknown else {
                    element.unowned.postError(.noCaps(on: own.name, medium: "audio"))
                    return .refuse(.notNegotiated)
                }
                guard buffer.isReadable, self.hasWholeSamples(buffer) else {
                    gate.countIncomplete()
                    return .drop
                }
                guard case .passes = gate.admit(buffer, pad: own, element: element.unowned) else { return .drop }
                guard kind == .packets else { return .pass }
                self.deliver(packet: buffer)
                return .drop
            }
            switch event.kind {
            case .caps:
                // Other Opus reaches the pad, which refuses it.
                let isPacket = event.caps.map(Self.arePackets) ?? false
                self.kind.store(isPacket ? .packets : .samples, ordering: .releasing)
                self.layout = (
                    event.caps.flatMap(AudioFormat.sampleBytes) ?? 1,
                    event.caps?.first?.string("layout") == "non-interleaved"
                )
                gate.beginCaps(keeps: true)
                // The elements behind the pad are for samples and do not get other caps.
                guard !isPacket else { return .drop }
                return event.caps.flatMap(AudioFormat.positioned).map { .replaceEvent(.caps($0)) } ?? .pass
            // The time of the next packet says the same.
            case .gap: return kind == .packets ? .drop : .pass
            case .streamStart:
                gate.apply(streamStart: event)
                self.hasBegun.store(true, ordering: .releasing)
            case .segment: gate.set(segment: event)
            case .flushStart: gate.set(flushing: true)
            case .flushStop:
                guard !gate.isLeaving else { return .drop }
                gate.set(flushing: false)
                self.hasBegun.store(true, ordering: .releasing)
            case .tag: pass(event, .inOrder)
            // EOS ends the audio, not the session: audio that follows behind another STREAM_START is sent again.
            case .eos:
                gate.finish(element.unowned)
                self.hasBegun.store(false, ordering: .releasing)
                onEnd()
                return .drop
            default:
                guard let passage = event.downstreamPassage else { break }
                pass(event, passage)
                return .drop
            }
            return .pass
        }
    }

    /// A part of a sample is an error of the encoder, and so the end of a session.
    /// - Returns: false, with one warning a minute, if the elements behind the pad cannot read the buffer.
    private func hasWholeSamples(_ buffer: Buffer) -> Bool {
        let size = buffer.size
        let bytes = layout.sampleBytes
        let lacksMeta = layout.isPlanar && !buffer.hasAudioMeta
        guard size % bytes != 0 || lacksMeta else { return true }
        let now = MonotonicTime.now
        if warnings.allows(at: now) {
            let found =
                lacksMeta
                ? "no GstAudioMeta, which non-interleaved audio needs"
                : "\(size) bytes, but whole samples have a multiple of \(bytes)"
            element.unowned.postWarning(
                ElementProblem(
                    .streamFormat,
                    "A buffer of \(pad.name) has \(found): such buffers are dropped. Put rawaudioparse in front of the "
                        + "element, or correct the caps."))
        }
        return false
    }

    private func deliver(packet buffer: Buffer) {
        guard let duration = buffer.withBytes(OpusPacket.duration) ?? nil else { return gate.countDropped() }
        deliver(AudioFrame(buffer: buffer, channels: 0, runningTime: gate.runningTime(of: buffer), packet: duration))
    }

    private static func arePackets(_ caps: Caps) -> Bool { (try? Caps(OpusPacket.caps)).map(caps.isSubset) ?? false }

    /// The pad's target takes samples only.
    private func answerCaps(_ entry: Pad) {
        pad.setQueryFunction { query in
            guard let packets = try? Caps("\(AudioFormat.unpositionedCaps); \(OpusPacket.caps)") else {
                return .forward
            }
            switch query.kind {
            case .caps: query.answerCaps(entry.queryCaps().followed(by: packets))
            case .acceptCaps:
                guard let caps = query.offeredCaps else { return .forward }
                let sent = AudioFormat.positioned(caps) ?? caps
                query.answerAcceptCaps(Self.arePackets(caps) || entry.accepts(sent))
            default: return .forward
            }
            return .answered
        }
    }

    private func watchEnd() {
        end.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            let time = buffer.pts.flatMap { self.format.segment?.runningTime(of: $0) }
            self.deliver(AudioFrame(buffer: buffer, channels: self.format.channels, runningTime: time))
            return .ok
        }
        end.setEventFunction { [weak self] event in
            if event.kind == .segment { self?.format.segment = event }
            if let channels = event.caps?.first?.int("channels") { self?.format.channels = channels }
            return .handled(true)
        }
        end.setActive(true)
    }

    /// Removes everything from the element; an upstream push in progress is refused.
    func remove() {
        gate.close()
        removeElements()
        pad.setActive(false)
        element.unowned.remove(pad)
        end.setActive(false)
    }

    private func removeElements() {
        element.unowned.takeOut(elements)
    }
}
