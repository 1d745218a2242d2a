import GStreamerKit
import Testing

@Suite(.timeLimit(.minutes(1)))
struct BufferTests {
    init() { GStreamerRuntime.initialise() }

    @Test func buffers() throws {
        let buffer = [1, 2, 3, 4].withUnsafeBytes { _ in [9, 8, 7 as UInt8].withUnsafeBytes { Buffer(copying: $0) } }
        #expect(buffer.size == 3)
        #expect(buffer.withBytes { Array($0) } == [9, 8, 7])
        #expect(buffer.pts == nil)
        buffer.pts = 5
        buffer.isDiscontinuous = true
        #expect(buffer.pts == 5 && buffer.isDiscontinuous && !buffer.isDeltaUnit)
        let copy = try #require(buffer.copyOfMetadata())
        copy.pts = nil
        #expect(buffer.pts == 5 && copy.pts == nil && copy.size == 3)
        #expect(Buffer(size: -1).size == 0)
        let info = try #require(VideoInfo(caps: Caps("video/x-raw,format=I420,width=33,height=17,framerate=30/1")))
        let black = try #require(Buffer.blackI420(info))
        #expect(black.withVideoPlanes(info, writable: false) { $0.count } == 3)
        // The buffer is too small for the frame size in the caps.
        #expect(buffer.withVideoPlanes(info, writable: false) { $0.count } == nil)
    }
}
