package import GStreamerKit

/// Pixels to crop from each side so that the rest has the target's aspect ratio; even, for subsampled chroma. At least
/// four columns and rows remain, fewer than which some scalers cannot take.
package struct Cropping: Equatable {
    package var horizontal = 0
    package var vertical = 0

    package init() {}

    package init(_ input: VideoInfo, toFill target: (width: Int, height: Int)) {
        let (numerator, denominator) = input.pixelAspectRatio
        self.init(
            width: input.width, height: input.height, pixelAspectRatio: (numerator, denominator), target: target)
    }

    package init(width: Int, height: Int, pixelAspectRatio: (Int, Int), target: (width: Int, height: Int)) {
        guard width > 0, height > 0, target.width > 0, target.height > 0, pixelAspectRatio.0 > 0, pixelAspectRatio.1 > 0
        else { return }
        let ratio = Double(pixelAspectRatio.0) / Double(pixelAspectRatio.1)
        let wanted = Double(target.width) / Double(target.height)
        let actual = Double(width) * ratio / Double(height)
        if actual > wanted {
            let kept = Double(height) * wanted / ratio
            horizontal = max(0, min((width - 4) / 4, Int((Double(width) - kept) / 4)) * 2)
        } else {
            let kept = Double(width) * ratio / wanted
            vertical = max(0, min((height - 4) / 4, Int((Double(height) - kept) / 4)) * 2)
        }
    }
}
