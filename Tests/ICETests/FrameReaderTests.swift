import ICE
import Testing

/// Frames of a TCP connection to a peer that may write anything.
struct FrameReaderTests {
    private func frame(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes }

    private func read(_ stream: [UInt8], in parts: Int, isOfUse: Bool = true) -> (frames: [[UInt8]], isAlive: Bool) {
        var (reader, frames, isAlive): (FrameReader, [[UInt8]], Bool) = (FrameReader(), [], true)
        for start in stride(from: 0, to: stream.count, by: parts) {
            Array(stream[start..<min(start + parts, stream.count)]).withUnsafeBytes { bytes in
                isAlive =
                    reader.read(bytes) {
                        frames.append(Array($0))
                        return isOfUse
                    } && isAlive
            }
        }
        return (frames, isAlive)
    }

    /// The stream may break anywhere.
    @Test(arguments: [1, 2, 3, 7, 4096])
    func wholeFrames(parts: Int) {
        let sent = [1, 2, 255, 256, 1200, FrameReader.largestFrame].map {
            [UInt8](repeating: UInt8($0 & 0x7F), count: $0)
        }
        let (frames, isAlive) = read(sent.flatMap(frame), in: parts)
        #expect(frames == sent && isAlive)
    }

    @Test func aFrameThatIsTooLongIsSkipped() {
        let long = [UInt8](repeating: 9, count: FrameReader.largestFrame + 1)
        let (frames, isAlive) = read(frame([1]) + frame(long) + frame([2]), in: 1000)
        #expect(frames == [[1], [2]] && isAlive)
    }

    @Test func emptyFramesEndTheConnection() {
        let few = [UInt8](repeating: 0, count: 2 * (FrameReader.maximumUseless - 1))
        #expect(read(few + frame([1]), in: 100).frames == [[1]])
        #expect(read(few, in: 100).isAlive)
        #expect(!read(few + [0, 0], in: 100).isAlive)
        // What follows is not read.
        #expect(read(few + [0, 0] + frame([1]), in: 10_000).frames.isEmpty)
    }

    @Test func framesOfNoUseEndTheConnection() {
        let some = Array(repeatElement(frame([0xFF]), count: FrameReader.maximumUseless).joined())
        #expect(read(some, in: 500).isAlive)
        #expect(!read(some, in: 500, isOfUse: false).isAlive)
    }
}
