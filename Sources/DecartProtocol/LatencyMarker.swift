/// The latency marker (`pixel_latency=1`): a 16-bit sequence number in the bottom-left corner of a picture's luma.
///
/// 24 columns × 4 identical rows of 8 × 8-pixel blocks; luma 200 is a one, 50 a zero. Columns: sync 1 0 1 0, the number
/// (most significant bit first), the XOR of its four nibbles. Knows planes of luma and nothing of sessions or media.
package enum LatencyMarker {
    /// 8-bit samples in memory that somebody else owns: a view, valid as long as that memory.
    package struct Luma {
        let base: UnsafeMutableRawPointer
        let stride: Int
        package let width: Int
        package let height: Int

        /// Nil unless a row fits into the stride. That all rows are in the memory is the caller's word.
        package init?(base: UnsafeMutableRawPointer, stride: Int, width: Int, height: Int) {
            guard width > 0, height > 0, stride >= width else { return nil }
            (self.base, self.stride, self.width, self.height) = (base, stride, width, height)
        }

        func row(_ y: Int) -> UnsafeMutablePointer<UInt8> { (base + y &* stride).assumingMemoryBound(to: UInt8.self) }
    }

    package struct Found: Equatable, Sendable {
        package let number: UInt16
        /// Pixels, in the picture as it came.
        package let blockSize: Int
    }

    package static let columns = 24
    package static let rows = 4
    package static let blockSize = 8
    /// Samples that a stamp covers: 192 × 32.
    package static let width = columns * blockSize
    package static let height = rows * blockSize

    private static let one: UInt8 = 200
    private static let zero: UInt8 = 50
    private static let threshold = 128
    private static let sync: UInt32 = 0b1010
    /// Block sizes tried when reading, likeliest first: the transport may have scaled the picture.
    private static let readableBlockSizes = [8, 4, 6, 2, 12, 10, 16, 5, 7, 14, 3]

    /// - Returns: false, with the plane untouched, when it is smaller than the marker.
    @discardableResult
    package static func stamp(_ number: UInt16, onto luma: Luma) -> Bool {
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

    /// - Returns: nil where no block size gives rows with a sync word and a right checksum.
    package static func find(in luma: Luma) -> Found? {
        for size in readableBlockSizes where luma.width >= columns &* size && luma.height >= rows &* size {
            if let number = read(from: luma, blockSize: size) { return Found(number: number, blockSize: size) }
        }
        return nil
    }

    /// Puts the same part of another picture over a marker; without one, or where its size is another, what is above it.
    /// A block more on the two open sides is covered, for codecs smear.
    package static func cover(_ found: Found, in luma: Luma, with other: Luma?) {
        let width = min(luma.width, (columns &+ 1) &* found.blockSize)
        let height = min(luma.height / 2, (rows &+ 1) &* found.blockSize)
        let same = other.flatMap { $0.width == luma.width && $0.height == luma.height ? $0 : nil }
        for y in (luma.height &- height)..<luma.height {
            let source = same?.row(y) ?? luma.row(y &- height)
            luma.row(y).update(from: source, count: width)
        }
    }

    private static func read(from luma: Luma, blockSize: Int) -> UInt16? {
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

    private static func readRow(of luma: Luma, centreLine y: Int, blockSize: Int) -> UInt32 {
        var word: UInt32 = 0
        for column in 0..<columns {
            let x = column &* blockSize &+ blockSize / 2
            // The mean of the four samples around the centre: a codec's noise is seldom the same in all of them.
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
