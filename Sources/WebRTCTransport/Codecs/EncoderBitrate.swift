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

    private struct Rationed {
        var ration = BitrateRation()
        var target: Int?
    }
    private let rationed = Mutex(Rationed())

    /// - Parameter known: the encoder's row, if `property` is its; nil for a property that the application has named.
    /// - Throws: an error for the user if the element has no such property, or one of another type.
    package init(_ encoder: Element, _ property: BitrateProperty, known: KnownEncoder?) throws(GStreamerError) {
        let name = encoder.factoryName ?? encoder.name
        func fail(_ what: String) -> GStreamerError {
            GStreamerError(
                .badProperty,
                "the property '\(property.name)' of the encoder '\(name)' \(what); "
                    + "set encoder-bitrate-property to the property that sets its bitrate")
        }
        switch encoder.shape(of: property.name) {
        case .number(let range) where property.field == nil: self.range = range
        case .structure where property.field != nil: range = 0...Int(Int32.max)
        case .missing: throw fail("does not exist")
        case .readOnly: throw fail("cannot be set")
        case .number, .structure, .other: throw fail("is not a whole number")
        }
        (self.encoder, self.property) = (encoder, property)
        isRationed = known?.restartsAtNewBitrate == true
    }

    /// Sets the bitrate, bit/s, now or with one of the next frames.
    package func set(_ bitrate: Int, now: Duration) {
        guard isRationed else { return apply(bitrate) }
        rationed.withLock { $0.target = bitrate }
        frameComes(now: now)
    }

    /// Sets a bitrate that has waited, if its time has come.
    package func frameComes(now: Duration) {
        let due = rationed.withLock { state in state.target.flatMap { state.ration.next($0, now: now) } }
        if let due { apply(due) }
    }

    private func apply(_ bitrate: Int) {
        let value = property.value(for: bitrate, in: range)
        guard let field = property.field else { return encoder.set(property.name, value) }
        let controls = encoder.structure(property.name) ?? Structure("controls")
        controls[field] = GValueBox(int: value)
        encoder.set(property.name, structure: controls)
    }
}

extension KnownEncoder {
    /// Sets the encoder up for live video; properties that this release of it lacks are left out.
    package func apply(to encoder: Element) {
        for setting in settings + keyframes { encoder.set(setting.property, setting.value) }
        encoder.set("qos", false)
    }
}
