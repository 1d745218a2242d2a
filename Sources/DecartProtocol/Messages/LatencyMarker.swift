/// The latency marker (`pixel_latency=1`): a 16-bit sequence number in the bottom-left corner of a frame's luma plane.
///
/// The marker has 24 columns × 4 identical rows of 8 × 8-pixel blocks; luma 200 is a one, 50 a zero. The columns hold
/// the sync word 1 0 1 0, the number (most significant bit first) and the XOR of its four nibbles. This type knows luma
/// planes, but no sessions and no media.
package enum LatencyMarker {
    package struct Found: Equatable, Sendable {
        package let number: UInt16
        /// Pixels, in the received frame.
        package let blockSize: Int
    }

    package static let columns = 24
    package static let rows = 4
    package static let blockSize = 8
    /// Samples that the marker covers: 192 × 32.
    package static let width = columns * blockSize
    package static let height = rows * blockSize

    private static let one: UInt8 = 200
    private static let zero: UInt8 = 50
    private static let threshold = 128
    private static let sync: UInt32 = 0b1010
    /// Block sizes to try when reading, most likely first: the transport may have scaled the frame.
    private static let readableBlockSizes = [8, 4, 6, 2, 12, 10, 16, 5, 7, 14, 3]

    /// - Returns: false, with the plane unchanged, if the plane is smaller than the marker.
    @discardableResult
    package static func stamp(_ number: UInt16, onto luma: BytePlane) -> Bool {
        guard luma.width >= width, luma.height >= height else { return false }
        let bits = codeWord(number)
        for y in (luma.height &- height)..<luma.height {
            let row = luma.row(y)
            for column in 0..<columns {
                let isSet = bits &>> UInt32(truncatingIfNeeded: columns &- 1 &- column) & 1 == 1
                (row + column &* blockSize).update(repeating: isSet ? one : zero, count: blockSize)
            }
        }
        return true
    }

    /// - Returns: nil if no block size yields rows with the sync word and a matching checksum.
    package static func find(in luma: BytePlane) -> Found? {
        for size in readableBlockSizes where luma.width >= columns &* size && luma.height >= rows &* size {
            if let number = read(from: luma, blockSize: size) { return Found(number: number, blockSize: size) }
        }
        return nil
    }

    /// Copies the same area of another frame over a marker. Copies the area above it instead if there is no other frame
    /// or its size differs. The covered area is one block larger at the top and on the right, because codecs smear.
    package static func cover(_ found: Found, in luma: BytePlane, with other: BytePlane?) {
        let width = min(luma.width, (columns &+ 1) &* found.blockSize)
        let height = min(luma.height / 2, (rows &+ 1) &* found.blockSize)
        let same = other.flatMap { $0.width == luma.width && $0.height == luma.height ? $0 : nil }
        for y in (luma.height &- height)..<luma.height {
            let source = same?.row(y) ?? luma.row(y &- height)
            luma.row(y).update(from: source, count: width)
        }
    }

    private static func read(from luma: BytePlane, blockSize: Int) -> UInt16? {
        var votes = [Int](repeating: 0, count: columns)
        var voters = 0
        for row in 0..<rows {
            let y = luma.height &- (rows &- row) &* blockSize &+ blockSize / 2
            let word = readRow(of: luma, centreLine: y, blockSize: blockSize)
            guard word &>> 20 == sync else { continue }
            voters &+= 1
            for column in votes.indices where word &>> UInt32(truncatingIfNeeded: columns &- 1 &- column) & 1 == 1 {
                votes[column] &+= 1
            }
        }
        guard voters > 0 else { return nil }
        let word = votes.reduce(UInt32(0)) { $0 &<< 1 | ($1 &* 2 > voters ? 1 : 0) }
        let number = UInt16(truncatingIfNeeded: word &>> 4)
        return codeWord(number) == word ? number : nil
    }

    private static func readRow(of luma: BytePlane, centreLine y: Int, blockSize: Int) -> UInt32 {
        var word: UInt32 = 0
        for column in 0..<columns {
            let x = column &* blockSize &+ blockSize / 2
            // Average the four samples around the centre, because codec noise is seldom the same in all of them.
            let upper = luma.row(y &- 1)
            let lower = luma.row(y)
            let sum = Int(upper[x &- 1]) &+ Int(upper[x]) &+ Int(lower[x &- 1]) &+ Int(lower[x])
            word = word &<< 1 | (sum >= threshold &* 4 ? 1 : 0)
        }
        return word
    }

    private static func codeWord(_ number: UInt16) -> UInt32 {
        let checksum = (number &>> 12) ^ (number &>> 8) ^ (number &>> 4) ^ number
        return sync &<< 20 | UInt32(number) &<< 4 | UInt32(checksum & 0xf)
    }
}
