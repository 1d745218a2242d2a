// Computes the part of the camera's frame to use: first the user's crop, then the model's aspect ratio. Pure arithmetic
// on sizes; crops start at even pixels, because chroma is subsampled.
import GStreamerKit
import MediaPipeline

enum CropRequest: Sendable, Equatable {
    case all
    /// Pixels of the camera's frame, before rotation.
    case area(left: Int, top: Int, width: Int, height: Int)
    /// Aspect ratio as displayed.
    case ratio(Int, Int)

    /// Returns nil if the text is neither empty, nor `left,top,width,height`, nor an aspect ratio such as `16:9`.
    init?(_ text: String) {
        func numbers(_ separator: Character) -> [Int] {
            let parts = text.split(separator: separator, omittingEmptySubsequences: false)
            let values = parts.compactMap { Int($0.filter { $0 != " " }) }
            return values.count == parts.count && values.allSatisfy { 0...32768 ~= $0 } ? values : []
        }
        if text.allSatisfy({ $0 == " " }) {
            self = .all
        } else if case let area = numbers(","), area.count == 4, area[2] >= 2, area[3] >= 2 {
            self = .area(left: area[0], top: area[1], width: area[2], height: area[3])
        } else if case let ratio = numbers(":"), ratio.count == 2, ratio[0] > 0, ratio[1] > 0 {
            self = .ratio(ratio[0], ratio[1])
        } else {
            return nil
        }
    }
}

/// Pixels to crop at each side.
struct Margins: Sendable, Equatable {
    var left = 0
    var top = 0
    var right = 0
    var bottom = 0
}

/// Geometry of a video stream.
struct FrameGeometry {
    var width: Int
    var height: Int
    var pixelAspectRatio: (Int, Int)
    /// An orientation tag rotates the frame by 90 or 270 degrees.
    var isTurned: Bool

    /// Returns the margins around the requested part.
    func margins(_ request: CropRequest) -> Margins {
        switch request {
        case .all: return Margins()
        case .ratio(let across, let down): return margins(toFill: (across, down), within: Margins())
        case .area(let left, let top, let wide, let high):
            // The area is clamped so that at least two pixels remain.
            let (x, y) = (min(left, max(0, width - 2)) & ~1, min(top, max(0, height - 2)) & ~1)
            return Margins(
                left: x, top: y, right: max(0, width - x - (wide & ~1)), bottom: max(0, height - y - (high & ~1)))
        }
    }

    /// Enlarges `margins` so that the rest has the displayed aspect ratio of `target`.
    func margins(toFill target: (width: Int, height: Int), within margins: Margins) -> Margins {
        let rest = remains(margins)
        let cut = Cropping(
            width: rest.width, height: rest.height, pixelAspectRatio: pixelAspectRatio,
            target: isTurned ? (width: target.height, height: target.width) : target)
        return Margins(
            left: margins.left + cut.horizontal, top: margins.top + cut.vertical, right: margins.right + cut.horizontal,
            bottom: margins.bottom + cut.vertical)
    }

    func isPortrait(_ margins: Margins) -> Bool {
        let rest = remains(margins)
        return (rest.height &* pixelAspectRatio.1 > rest.width &* pixelAspectRatio.0) != isTurned
    }

    private func remains(_ margins: Margins) -> (width: Int, height: Int) {
        (max(1, width - margins.left - margins.right), max(1, height - margins.top - margins.bottom))
    }
}
