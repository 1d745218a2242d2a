// The formats that a camera can deliver, and the choice among them.
package import DecartProtocol
package import GStreamerKit

/// One frame size and pixel format, with the frame rates that the camera offers for it.
package struct CameraFormat: Sendable, Equatable {
    var mediaType: String
    /// nil for compressed video.
    var pixelFormat: String?
    package var width: Int
    package var height: Int
    /// Ascending; empty if the camera reports none.
    var rates: [ClosedRange<Fraction>]

    static let raw = "video/x-raw"
    static let jpeg = "image/jpeg"

    var fastest: Fraction? { rates.map(\.upperBound).max() }
    var slowest: Fraction? { rates.map(\.lowerBound).min() }
    var area: Int { width &* height }

    /// Returns all formats in a device's caps, ordered by frame area. A size given as a range contributes its minimum,
    /// its maximum and `wished`.
    package static func all(in caps: Caps, wished: VideoFormat?) -> [CameraFormat] {
        var found: [CameraFormat] = []
        for structure in caps.structures where [raw, jpeg].contains(structure.name) {
            let sizes = Self.sizes(structure, wished)
            let rates = structure.fractions("framerate").sorted { $0.lowerBound < $1.lowerBound }
            let formats = structure.name == raw ? structure.strings("format").map(Optional.some) : [nil]
            for format in formats {
                for (width, height) in sizes {
                    let one = CameraFormat(
                        mediaType: structure.name, pixelFormat: format, width: width, height: height, rates: rates)
                    if !found.contains(one) { found.append(one) }
                }
            }
        }
        return found.enumerated().sorted { ($0.element.area, $0.offset) < ($1.element.area, $1.offset) }.map(\.element)
    }

    private static func sizes(_ structure: Structure, _ wished: VideoFormat?) -> [(Int, Int)] {
        func values(_ field: String, _ wish: Int?) -> [(value: Int, isFree: Bool)] {
            structure.integers(field).flatMap { range -> [(Int, Bool)] in
                guard range.count > 1 else { return [(range.lowerBound, false)] }
                return Set([range.lowerBound, range.upperBound] + [wish].compactMap { $0 }.filter(range.contains))
                    .sorted().map { ($0, true) }
            }
        }
        let (widths, heights) = (values("width", wished?.width), values("height", wished?.height))
        // Widths and heights given as ranges form pairs: minimum with minimum, `wished` with `wished`, maximum with
        // maximum.
        if widths.count == heights.count, widths.contains(where: \.isFree) {
            return zip(widths, heights).map { ($0.value, $1.value) }
        }
        return widths.flatMap { width in heights.map { (width.value, $0.value) } }
    }

    /// Chooses the smallest size that covers the model's in either orientation at the model's frame rate. If there is
    /// none, it chooses the fastest format among those that cover the model's size, or else, at the largest size, one
    /// that reaches the frame rate or is the fastest. Among equals it prefers the pixel format that needs no decoding
    /// or conversion.
    package static func best(of formats: [CameraFormat], for model: VideoFormat) -> CameraFormat? {
        let (short, long) = (min(model.width, model.height), max(model.width, model.height))
        let covering = formats.filter { min($0.width, $0.height) >= short && max($0.width, $0.height) >= long }
        func reaches(_ format: CameraFormat) -> Bool {
            format.fastest.map { $0.value >= Double(model.framerate) } ?? true
        }
        func cheapest(_ formats: [CameraFormat]) -> CameraFormat? { formats.min { $0.cost < $1.cost } }
        if let area = covering.filter(reaches).map(\.area).min() {
            return cheapest(covering.filter { reaches($0) && $0.area == area })
        }
        let sized = covering.isEmpty ? formats.filter { $0.area == formats.map(\.area).max() } : covering
        if case let fast = sized.filter(reaches), !fast.isEmpty { return cheapest(fast) }
        let top = sized.compactMap(\.fastest).max()
        let fastest = sized.filter { $0.fastest == top }
        return cheapest(fastest.filter { $0.area == fastest.map(\.area).min() })
    }

    private var cost: Int {
        guard mediaType == Self.raw else { return 3 }
        return switch pixelFormat {
        case "I420", "NV12", "YV12": 0
        case "YUY2", "UYVY", "YVYU": 1
        default: 2
        }
    }

    /// Returns the slowest rate that is not below the model's, or else the fastest.
    package func rate(for model: VideoFormat) -> Fraction? {
        let wanted = Fraction(model.framerate, 1)
        if rates.contains(where: { $0.contains(wanted) }) { return wanted }
        return rates.map(\.lowerBound).filter { $0 >= wanted }.min() ?? fastest
    }

    func capsText(for model: VideoFormat) -> String {
        var text = "\(mediaType), width=(int)\(width), height=(int)\(height)"
        if let pixelFormat { text += ", format=(string)\(pixelFormat)" }
        if let rate = rate(for: model) { text += ", framerate=(fraction)\(rate)" }
        return text
    }

    // MARK: Application interface

    var structure: Structure {
        let structure = Structure(
            "format", ("media-type", GValueBox(mediaType)), ("format", pixelFormat.map { GValueBox($0) }),
            ("width", GValueBox(int: width)), ("height", GValueBox(int: height)))
        if let slowest, let fastest {
            structure.set("min-framerate", fraction: slowest)
            structure.set("max-framerate", fraction: fastest)
        }
        return structure
    }

    /// True if all fields that `wish` has agree; a field that it lacks may have any value.
    func matches(_ wish: Structure) -> Bool {
        func fits(_ field: String, _ own: Int) -> Bool { wish.int(field).map { $0 == own } ?? true }
        return fits("width", width) && fits("height", height)
            && (wish.string("format").map { $0 == pixelFormat } ?? true)
            && (wish.string("media-type").map { $0 == mediaType } ?? true)
    }
}
