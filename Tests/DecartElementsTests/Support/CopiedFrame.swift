import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport

/// An I420 frame without padding, copied out of a buffer.
struct CopiedFrame: Sendable, Equatable {
    let width: Int
    let height: Int
    /// Planes in the order Y, Cb, Cr.
    var planes: [[UInt8]]

    var chromaWidth: Int { (width + 1) / 2 }
    var chromaHeight: Int { (height + 1) / 2 }

    init(width: Int, height: Int, planes: [[UInt8]]) {
        self.width = width
        self.height = height
        self.planes = planes
    }

    init?(_ buffer: Buffer, _ video: VideoInfo) {
        guard let planes = buffer.samples(video), planes.count == 3 else { return nil }
        self.init(width: video.width, height: video.height, planes: planes)
    }

    /// Returns this frame as the stand-in transforms it.
    func applying(_ look: Look) -> CopiedFrame {
        // Three separate arrays: overlapping access to elements of one array is not allowed.
        var (luma, blue, red) = (planes[0], planes[1], planes[2])
        luma.withUnsafeMutableBytes { luma in
            blue.withUnsafeMutableBytes { blue in
                red.withUnsafeMutableBytes { red in
                    guard let luma = Self.plane(luma, width, height),
                        let blue = Self.plane(blue, chromaWidth, chromaHeight),
                        let red = Self.plane(red, chromaWidth, chromaHeight),
                        let frame = I420Frame(luma: luma, blueChroma: blue, redChroma: red)
                    else { return }
                    look.apply(to: frame)
                }
            }
        }
        return CopiedFrame(width: width, height: height, planes: [luma, blue, red])
    }

    private static func plane(_ memory: UnsafeMutableRawBufferPointer, _ width: Int, _ height: Int) -> BytePlane? {
        memory.baseAddress.flatMap { BytePlane(base: $0, stride: width, width: width, height: height) }
    }

    func applying(prompt: String) -> CopiedFrame { applying(Look(prompt: prompt, imageHash: nil)) }

    /// Returns the largest of the three planes' mean absolute differences in code values, infinite if the sizes differ.
    func difference(from other: CopiedFrame) -> Double {
        guard width == other.width, height == other.height else { return .infinity }
        return zip(planes, other.planes).map(Self.meanDifference).max() ?? .infinity
    }

    private static func meanDifference(_ one: [UInt8], _ other: [UInt8]) -> Double {
        guard one.count == other.count, !one.isEmpty else { return .infinity }
        var sum = 0
        one.withUnsafeBufferPointer { one in
            other.withUnsafeBufferPointer { other in
                for index in one.indices { sum &+= abs(Int(one[index]) &- Int(other[index])) }
            }
        }
        return Double(sum) / Double(one.count)
    }

    /// Returns the mean of a square of luma, and of chroma at the same point. The point is given as fractions of width
    /// and height.
    func mean(x: Double, y: Double, radius: Int = 2) -> (luma: Double, blue: Double, red: Double) {
        func average(_ plane: Int, _ width: Int, _ height: Int) -> Double {
            let (centreX, centreY) = (Int(x * Double(width)), Int(y * Double(height)))
            var sum = 0
            var count = 0
            for row in max(0, centreY - radius)...min(height - 1, centreY + radius) {
                for column in max(0, centreX - radius)...min(width - 1, centreX + radius) {
                    sum += Int(planes[plane][row * width + column])
                    count += 1
                }
            }
            return Double(sum) / Double(max(1, count))
        }
        return (average(0, width, height), average(1, chromaWidth, chromaHeight), average(2, chromaWidth, chromaHeight))
    }
}
