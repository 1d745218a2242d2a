import RTP
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct FrameLimitTests {
    /// The number of packets of 1 KiB that pass; 4,096 of them are the largest frame.
    private func passed(_ limit: inout FrameLimit, _ timestamp: UInt32, packets: Int, isEnded: Bool) -> Int {
        var count = 0
        for index in 1...packets
        where limit.admit(timestamp: timestamp, size: 1024, endsFrame: isEnded && index == packets) {
            count += 1
        }
        return count
    }

    @Test(arguments: [true, false])
    func framesOfTheLargestSizePass(isEnded: Bool) {
        var limit = FrameLimit()
        for timestamp: UInt32 in 0..<3 {
            let count = passed(&limit, timestamp, packets: 4096, isEnded: isEnded)
            #expect(count == 4096)
        }
        // Only the marker separates two frames of one timestamp.
        let again = passed(&limit, 2, packets: 4096, isEnded: true)
        #expect(again == (isEnded ? 4096 : 0))
    }

    @Test func theRestOfALargerFrameIsDropped() {
        var limit = FrameLimit()
        let first = passed(&limit, 1, packets: 10_000, isEnded: true)
        let next = passed(&limit, 2, packets: 10, isEnded: true)
        #expect(first == 4096 && next == 10)
        #expect(limit.drops == 1)
        // Another stream begins, and the count goes on.
        limit.begin()
        let other = passed(&limit, 2, packets: 5000, isEnded: false)
        #expect(other == 4096 && limit.drops == 2)
    }
}
