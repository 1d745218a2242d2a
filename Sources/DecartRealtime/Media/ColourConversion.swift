import Foundation

/// Conversions of packed frames into the format that the stream does not have.
enum ColourConversion {
    /// - Parameter shares: of red and blue in luma.
    static func rgba(
        i420: Data, _ width: Int, _ height: Int, isFullRange: Bool, shares: (red: Double, blue: Double)
    ) -> Data {
        let columns = (width + 1) / 2
        let chroma = columns * ((height + 1) / 2)
        guard i420.count == width * height + 2 * chroma else { return Data() }
        // 16 bits of fraction.
        func fixed(_ value: Double) -> Int { Int((value * 65_536).rounded()) }
        let (scale, offset) = isFullRange ? (1.0, 0) : (255.0 / 219, 16)
        let chromaScale = isFullRange ? 1.0 : 255.0 / 224
        let green = 1 - shares.red - shares.blue
        let luma = fixed(scale)
        let red = fixed(2 * (1 - shares.red) * chromaScale)
        let blue = fixed(2 * (1 - shares.blue) * chromaScale)
        let greenOfRed = fixed(2 * (1 - shares.red) * shares.red / green * chromaScale)
        let greenOfBlue = fixed(2 * (1 - shares.blue) * shares.blue / green * chromaScale)
        func byte(_ value: Int) -> UInt8 { UInt8(clamping: (value + 32_768) >> 16) }
        var result = [UInt8](repeating: 255, count: width * height * 4)
        i420.withUnsafeBytes { bytes in
            for y in 0..<height {
                for x in 0..<width {
                    let light = (Int(bytes[y * width + x]) - offset) * luma
                    let at = width * height + y / 2 * columns + x / 2
                    let (u, v) = (Int(bytes[at]) - 128, Int(bytes[at + chroma]) - 128)
                    let pixel = (y * width + x) * 4
                    result[pixel] = byte(light + v * red)
                    result[pixel + 1] = byte(light - u * greenOfBlue - v * greenOfRed)
                    result[pixel + 2] = byte(light + u * blue)
                }
            }
        }
        return Data(result)
    }

    /// Limited range, BT.601, as the service sends. Chroma is that of each second pixel.
    static func i420(rgba: Data, _ width: Int, _ height: Int) -> Data {
        let (columns, rows) = ((width + 1) / 2, (height + 1) / 2)
        var result = [UInt8](repeating: 0, count: width * height + 2 * columns * rows)
        rgba.withUnsafeBytes { bytes in
            func pixel(_ x: Int, _ y: Int) -> (Int, Int, Int) {
                let at = (y * width + x) * 4
                return (Int(bytes[at]), Int(bytes[at + 1]), Int(bytes[at + 2]))
            }
            for y in 0..<height {
                for x in 0..<width {
                    let (red, green, blue) = pixel(x, y)
                    result[y * width + x] = UInt8(clamping: (66 * red + 129 * green + 25 * blue + 128) >> 8 + 16)
                }
            }
            for y in 0..<rows {
                for x in 0..<columns {
                    let (red, green, blue) = pixel(x * 2, y * 2)
                    let at = width * height + y * columns + x
                    result[at] = UInt8(clamping: (-38 * red - 74 * green + 112 * blue + 128) >> 8 + 128)
                    result[at + columns * rows] = UInt8(clamping: (112 * red - 94 * green - 18 * blue + 128) >> 8 + 128)
                }
            }
        }
        return Data(result)
    }
}
