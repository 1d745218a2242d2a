/// The effect that the stand-in applies to a frame. The same prompt and image give the same pixels on every run.
package struct Look: Sendable, Equatable {
    package enum Style: Sendable, Equatable {
        /// Unchanged pixels: passthrough, or no state set yet.
        case untouched
        /// Bricks of 16 × 16 pixels with bright upper-left and dark lower-right edges.
        case mosaic
        /// Five levels of luma, three of each chroma component, a warm cast.
        case posterised
        /// Inverted, darkened, strongly saturated, with bright edges.
        case neon
        /// Greyscale with darker midtones.
        case grey
        /// Colours rotated by 60 … 300 degrees, with a cast in the direction of the rotation.
        case hue(degrees: Int)

        /// The name of the case.
        package var name: String { String("\(self)".prefix { $0 != "(" }) }
    }

    package static let styleNames = ["untouched", "hue"] + styleWords.map(\.style.name)

    /// A constant shift of the chroma planes, in code values.
    package struct Tint: Sendable, Equatable {
        package let blue: Int
        package let red: Int
    }

    package let style: Style
    package let tint: Tint?

    package init(style: Style, tint: Tint? = nil) {
        self.style = style
        self.tint = tint
    }

    package static let untouched = Look(style: .untouched)

    /// Words that select a style, in order of precedence (case-insensitive, anywhere in the prompt).
    package static let styleWords: [(word: String, style: Style)] = [
        ("lego", .mosaic), ("anime", .posterised), ("cyberpunk", .neon), ("noir", .grey),
    ]

    /// - Parameters:
    ///   - prompt: Nil or empty: the style is `untouched`, so that an image alone only tints.
    ///   - imageHash: `StableHash` of the reference image's bytes.
    package init(prompt: String?, imageHash: UInt64?) {
        tint = imageHash.map(Tint.init(hash:))
        guard let prompt, !prompt.isEmpty else {
            style = .untouched
            return
        }
        let lowercased = prompt.lowercased()
        let words = Self.styleWords.first { lowercased.contains($0.word) }
        style = words?.style ?? .hue(degrees: 60 + Int(StableHash.fnv1a(prompt.utf8) % 241))
    }

    package func apply(to frame: I420Frame) {
        switch style {
        case .untouched: break
        case .mosaic: MosaicKernel.apply(to: frame)
        case .posterised: PointwiseKernel.posterised.apply(to: frame)
        case .neon: NeonKernel.apply(to: frame)
        case .grey: PointwiseKernel.grey.apply(to: frame)
        case .hue(let degrees): HueKernel.apply(to: frame, degrees: degrees)
        }
        if let tint { PointwiseKernel.tint(tint).apply(to: frame) }
    }
}

extension Look: CustomStringConvertible {
    package var description: String {
        let name = if case .hue(let degrees) = style { "hue turned by \(degrees) degrees" } else { style.name }
        return tint == nil ? name : name + ", tinted"
    }
}

extension Look.Tint {
    /// Selects one of 16 directions on a square of ± 32 code values around "no change", so that every tint is visible.
    init(hash: UInt64) {
        let step = Int(hash % 16)
        let along = (step % 4) &* 16 &- 32
        switch step / 4 {
        case 0: (blue, red) = (along, -32)
        case 1: (blue, red) = (32, along)
        case 2: (blue, red) = (-along, 32)
        default: (blue, red) = (-32, -along)
        }
    }
}
