// The way that an input frame takes to the size and format that are sent, as a value: as it is, through our own scaler, or
// through GStreamer's elements, which take every format.
package import GStreamerKit

package enum InputRoute: Equatable {
    /// The frame has size and format already.
    case unchanged
    /// Packed RGB: one pass scales and converts it.
    case scaler(FramePlacement)
    /// GStreamer's elements.
    case elements

    /// - Parameters:
    ///   - caps: those of the input's frames.
    ///   - target: size of the frames that leave; one with an odd side goes through the elements.
    ///   - scalerIsFast: false on a processor without the scaler's instructions, where GStreamer is faster.
    package init(
        _ caps: Caps, _ input: VideoInfo, target: (width: Int, height: Int), fit: Fit, rotation: ImageRotation,
        scalerIsFast: Bool = FrameScaler.isFast
    ) {
        self = .elements
        guard rotation == .none, caps.memory == nil, !input.isInterlaced, input.isMono else { return }
        if input.isI420 {
            let (numerator, denominator) = input.pixelAspectRatio
            if (input.width, input.height) == target, numerator == denominator, input.hasColorimetry("bt601") {
                self = .unchanged
            }
        } else if scalerIsFast, input.packedRGB != nil, input.isFullRange,
            let placement = FramePlacement(input, in: target, fit: fit)
        {
            self = .scaler(placement)
        }
    }
}

/// The part of the input that is shown, and the part of the sent frame that shows it. The latter is even, for the
/// subsampled chroma.
package struct FramePlacement: Equatable, Sendable {
    package struct Area: Equatable, Sendable {
        package var x = 0
        package var y = 0
        package var width: Int
        package var height: Int

        package init(x: Int = 0, y: Int = 0, width: Int, height: Int) {
            (self.x, self.y, self.width, self.height) = (x, y, width, height)
        }
    }
    package var shown: Area
    package var area: Area

    /// nil if a side is empty or a side of the target is odd.
    package init?(_ input: VideoInfo, in target: (width: Int, height: Int), fit: Fit) {
        guard input.width > 0, input.height > 0, target.width > 0, target.height > 0, target.width % 2 == 0,
            target.height % 2 == 0
        else { return nil }
        shown = Area(width: input.width, height: input.height)
        area = Area(width: target.width, height: target.height)
        switch fit {
        case .stretch: break
        case .crop:
            let cut = Cropping(input, toFill: target)
            shown = Area(
                x: cut.horizontal, y: cut.vertical, width: input.width - 2 * cut.horizontal,
                height: input.height - 2 * cut.vertical)
        case .letterbox:
            let (numerator, denominator) = input.pixelAspectRatio
            guard numerator > 0, denominator > 0 else { return nil }
            let ratio = Double(input.width) * Double(numerator) / (Double(input.height) * Double(denominator))
            if ratio * Double(target.height) > Double(target.width) {
                area.height = Self.even(Double(target.width) / ratio, atMost: target.height)
                area.y = (target.height - area.height) / 4 * 2
            } else {
                area.width = Self.even(Double(target.height) * ratio, atMost: target.width)
                area.x = (target.width - area.width) / 4 * 2
            }
        }
    }

    private static func even(_ length: Double, atMost limit: Int) -> Int {
        min(limit, max(2, Int(min(length, Double(limit)).rounded()) / 2 * 2))
    }
}
