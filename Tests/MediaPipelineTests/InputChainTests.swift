import Foundation
import GStreamerKit
import MediaPipeline
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct InputChainTests {
    /// Sends frames whose rows are black and white in turn; the flag says if a frame is interlaced.
    /// - Returns: whether the two fields still differ, for the first 8 frames that leave the chain. The ninth is sent
    ///   because deinterlace keeps one field of the frame that it still has at EOS.
    private func combing(mode: String, isFlagged: @escaping @Sendable (Int) -> Bool) throws -> [Bool] {
        GStreamerRuntime.initialise()
        let caps = "video/x-raw,format=I420,width=64,height=48,framerate=25/1,colorimetry=bt601,interlace-mode=\(mode)"
        let pipeline = try Pipeline(
            description: "videotestsrc num-buffers=9 ! video/x-raw,width=64,height=48 ! capssetter caps=\"\(caps)\" "
                + "! identity name=i")
        let identity = try #require(pipeline.child(named: "i"))
        let source = try #require(identity.staticPad("src"))
        let info = try #require(VideoInfo(caps: try Caps(caps)))
        let count = Mutex(0)
        source.addProbe(.buffer) { item in
            guard case .buffer(let buffer) = item, let copy = buffer.copyOfMetadata() else { return .pass }
            let index = count.withLock { count in
                defer { count += 1 }
                return count
            }
            copy.isInterlaced = isFlagged(index)
            _ = copy.withVideoPlanes(info, writable: true) { planes in
                for row in 0..<48 {
                    memset(planes[0].base + row * planes[0].stride, row % 2 == 0 ? 16 : 235, 64)
                }
            }
            return .replace(copy)
        }
        let bin = Bin(name: "chain")
        let chain = try InputChain(pacing: InputPacing(), sink: source)
        let entry = try GhostPad(name: "sink", target: try chain.install(in: bin))
        bin.add(entry)
        chain.configure(width: 64, height: 48, fit: .stretch)
        let results = Mutex<[Bool]>([])
        chain.addDelivery(attempt: 1) { frame in
            let isCombed = frame.buffer.withVideoPlanes(info, writable: false) { planes in
                let rows = planes[0].base.assumingMemoryBound(to: UInt8.self)
                return abs(Int(rows[20 * planes[0].stride + 32]) - Int(rows[21 * planes[0].stride + 32])) > 100
            }
            results.withLock { $0.append(isCombed ?? false) }
        }
        chain.gate.open(attempt: 1)
        chain.gate.set(playing: true)
        pipeline.add(bin)
        try source.link(entry)
        pipeline.setState(.playing)
        for _ in 0..<1_000 where results.withLock(\.count) < 8 { Thread.sleep(forTimeInterval: 0.01) }
        pipeline.setState(.null)
        return results.withLock { Array($0.prefix(8)) }
    }

    @Test func interlacedFramesLoseAField() throws {
        #expect(try combing(mode: "interleaved") { _ in true } == Array(repeating: false, count: 8))
    }

    @Test func progressiveFramesStay() throws {
        #expect(try combing(mode: "progressive") { _ in false } == Array(repeating: true, count: 8))
    }

    /// Some hardware decoders announce mixed frames and flag none.
    @Test func mixedFramesWithoutFlagsAreInterlaced() throws {
        #expect(try combing(mode: "mixed") { _ in false } == Array(repeating: false, count: 8))
    }

    @Test func flagsOfMixedFramesAreFollowed() throws {
        let seen = try combing(mode: "mixed") { $0 < 4 }
        #expect(seen == (0..<8).map { $0 >= 4 })
    }
}
