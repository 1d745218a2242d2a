import GStreamerKit
import RTP
import Testing
import WebRTCTransport

/// Each packet of a bundle goes to the RTP session of its kind, whatever SSRCs the remote peer uses.
@Suite(.timeLimit(.minutes(1)))
struct BundleDemuxerTests {
    init() { GStreamerRuntime.initialise() }

    /// Returns a demuxer for video with payload type 96 and RTX 97, and audio with 111.
    private func demuxer() throws -> BundleDemuxer {
        var choice = RemoteDescription.Choice()
        choice.takesAudio = true
        let remote = try RemoteDescription(
            parsing: SampleOffer.session + SampleOffer.audio + SampleOffer.video(), isOffer: true, choice: choice
        ) { _ in true }
        var demuxer = BundleDemuxer()
        var video = try #require(remote.video)
        video.alternatives = []
        demuxer.configure(video)
        demuxer.configure(try #require(remote.audio))
        return demuxer
    }

    private func rtp(_ type: UInt8, ssrc: UInt32) -> [UInt8] {
        [0x80, type, 0, 1, 0, 0, 0, 1] + (0..<4).map { UInt8(truncatingIfNeeded: ssrc >> (24 - 8 * UInt32($0))) }
    }

    @Test func theTableOfSourcesIsBounded() throws {
        var demuxer = try demuxer()
        for ssrc: UInt32 in 1...1000 {
            let type: UInt8 = ssrc % 2 == 0 ? 96 : 111
            let owner = rtp(type, ssrc: ssrc).withUnsafeBytes { demuxer.kind(ofRTP: $0) }
            #expect(owner == (type == 96 ? .video : .audio))
            #expect(demuxer.knownSources <= BundleDemuxer.maximumSources)
        }
    }
}
