// Sets the bitrate of an encoder element. It knows properties; it must not know where the target comes from.
package import GStreamerKit
internal import Synchronization

/// Makes one encoder element follow the bitrate target.
package final class EncoderBitrate: Sendable {
    private let encoder: Element
    private let property: BitrateProperty
    private let range: ClosedRange<Int>
    /// True for an encoder that sends a keyframe at each change: call `frameComes` before each frame.
    package let isRationed: Bool

    private struct State {
        var rate: EncoderRate?
        var ration = BitrateRation()
        var target: Int?
        var applied: Int?

        /// The bitrate to set; nil: it stays.
        mutating func next(isRationed: Bool, now: Duration) -> Int? {
            guard let target else { return nil }
            if isRationed { return ration.next(target, now: now) }
            let wanted = rate?.setting ?? target
            // Each change costs the encoder a new set-up of its rate control.
            if let applied, abs(wanted - applied) * 50 < applied { return nil }
            applied = wanted
            return wanted
        }
    }
    private let state: Mutex<State>

    /// Returns nil if no property is known to set the encoder's bitrate, or this release of it lacks it.
    /// - Parameter corrects: whether the setting follows from what the encoder makes.
    package init?(_ encoder: Element, known: KnownEncoder?, corrects: Bool = false) {
        guard let property = known?.bitrate ?? BitrateProperty(of: encoder) else { return nil }
        switch encoder.shape(of: property.name) {
        case .number(let range) where property.field == nil: self.range = range
        case .structure where property.field != nil: range = 0...Int(Int32.max)
        case .missing, .readOnly, .number, .structure, .other: return nil
        }
        (self.encoder, self.property) = (encoder, property)
        isRationed = known?.restartsAtNewBitrate == true
        let rate = known?.budget.map { EncoderRate(target: 0, countsFrames: $0 == .byFrames) }
        state = Mutex(State(rate: corrects ? rate : nil))
        if corrects, rate != nil { watch() }
    }

    /// Sets the bitrate, bit/s, now or with one of the next frames.
    package func set(_ bitrate: Int, now: Duration) {
        state.withLock { state in
            state.target = bitrate
            state.rate?.set(target: bitrate)
        }
        frameComes(now: now)
    }

    /// Sets a bitrate that has waited, if its time has come.
    package func frameComes(now: Duration) {
        let due = state.withLock { $0.next(isRationed: isRationed, now: now) }
        if let due { apply(due) }
    }

    /// Measures what the encoder makes.
    private func watch() {
        encoder.staticPad("sink")?.addProbe([.buffer, .downstreamEvent]) { [weak self] item in
            switch item {
            case .event(let event):
                guard let caps = event.caps else { break }
                let (frames, seconds) = caps.first?.fraction("framerate") ?? (0, 1)
                self?.state.withLock { $0.rate?.declare(Double(frames) / Double(max(1, seconds))) }
            case .buffer(let frame):
                guard let time = frame.pts else { break }
                self?.state.withLock { $0.rate?.entered(time) }
                self?.frameComes(now: MonotonicTime.now)
            case .query: break
            }
            return .pass
        }
        encoder.staticPad("src")?.addProbe(.buffer) { [weak self] item in
            if case .buffer(let frame) = item { self?.state.withLock { $0.rate?.left(frame.size) } }
            return .pass
        }
    }

    private func apply(_ bitrate: Int) {
        let value = property.value(for: bitrate, in: range)
        guard let field = property.field else { return encoder.set(property.name, value) }
        let controls = encoder.structure(property.name) ?? Structure("controls")
        controls[field] = GValueBox(int: value)
        encoder.set(property.name, structure: controls)
    }
}

extension BitrateProperty {
    /// The property of an encoder that no row describes, by the names that encoders use; nil: it has neither. The value
    /// of `bitrate` shows its unit: none of them begins with 32 Mbit/s, or with 32 kbit/s.
    package init?(of encoder: Element) {
        if case .number = encoder.shape(of: "target-bitrate") {
            self = .bit("target-bitrate")
        } else if case .number = encoder.shape(of: "bitrate") {
            self = encoder.int("bitrate") ?? 0 >= 32_000 ? .bit("bitrate") : .kbit("bitrate")
        } else {
            return nil
        }
    }
}

extension KnownEncoder {
    /// Sets the encoder up for live video; properties that this release of it lacks are left out.
    package func apply(to encoder: Element) {
        for setting in settings + keyframes { encoder.set(setting.property, setting.value) }
        encoder.set("qos", false)
    }
}
