// The way that an input frame takes to the size and format that are sent, as a value: as it is, through libyuv, or through
// GStreamer's elements, which take every format.
package import GStreamerKit

package enum InputRoute: Equatable {
    /// The frame has size and format already.
    case unchanged
    /// libyuv crops, scales and converts it.
    case scaler(FramePlacement)
    /// GStreamer's elements.
    case elements

    /// - Parameters:
    ///   - caps: those of the input's frames.
    ///   - target: size of the frames that leave; one with an odd side goes through the elements.
    package init(
        _ caps: Caps, _ input: VideoInfo, target: (width: Int, height: Int), fit: Fit, rotation: ImageRotation
    ) {
        self = .elements
        guard rotation == .none, caps.memory == nil, !input.isInterlaced, input.isMono else { return }
        let (numerator, denominator) = input.pixelAspectRatio
        if input.isI420, (input.width, input.height) == target, numerator == denominator, input.hasColorimetry("bt601")
        {
            self = .unchanged
        } else if FrameScaler.supports(input), let placement = FramePlacement(input, in: target, fit: fit) {
            self = .scaler(placement)
        }
    }
}
