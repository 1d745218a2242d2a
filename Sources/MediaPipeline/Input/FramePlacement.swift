package import GStreamerKit

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
