import DecartElements
import RTP
import Testing

struct RTSPStreamsTests {
    @Test func theFirstOfEachKindIsTaken() {
        var streams = RTSPStreams(usable: [.h264, .vp8], takesAudio: true)
        #expect(!streams.isDescribed)
        let taken = [
            ("application", "VND.ONVIF.METADATA"), ("video", "JPEG"), ("video", "VP8"), ("video", "H264"),
            ("audio", "L16"), ("audio", "PCMU"), ("audio", "PCMA"),
        ].map { streams.select($0, encoding: $1) }
        #expect(taken == [false, false, true, false, false, true, false])
        #expect(streams.isDescribed && streams.video == .vp8 && streams.unusable == ["JPEG"])
        #expect(streams.hasAudio && streams.unusableAudio == "L16")
        var silent = RTSPStreams(usable: [.h264], takesAudio: false)
        let isTaken = silent.select("audio", encoding: "PCMU")
        #expect(!isTaken && silent.unusableAudio == nil)
    }

    /// A description may have any number of streams, with names of any length.
    @Test func namesOfUnusableStreamsAreBounded() {
        var streams = RTSPStreams(usable: [.h264], takesAudio: true)
        for number in 0..<10_000 {
            let name = "X\(number % 50)\u{1b}" + String(repeating: "Y", count: 1000)
            let isTaken = streams.select(number % 2 == 0 ? "video" : "audio", encoding: name)
            #expect(!isTaken)
        }
        #expect(streams.unusable.count == RTSPStreams.maximumNamed)
        let names = streams.unusable + [streams.unusableAudio ?? ""]
        #expect(names.allSatisfy { $0.utf8.count < 200 && !$0.contains("\u{1b}") && $0.hasPrefix("X") }, "\(names)")
        let isTaken = streams.select("video", encoding: "H264")
        #expect(isTaken)
    }
}
