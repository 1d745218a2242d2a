import DecartProtocol
import GStreamerKit
import LiveKitProtocol
import RTP
import StandInServer
import Synchronization
import Testing
import WebRTCTransport

/// The codec in which a room returns the video of a participant that sends VP8.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct RoomCodecTests {
    @Test(
        arguments: [
            (.query, "", .vp8), (.query, "&livekit_server_codec=h264", .h264),
            (.query, "&livekit_server_codec=av1", .vp8), (.h264SingleUnit, "", .h264),
            (.client, "&livekit_server_codec=h264", .vp8), (.vp9, "&livekit_server_codec=vp8", .vp9),
        ] as [(ServerCodec, String, VideoCodec)])
    func theResult(option: ServerCodec, query: String, codec: VideoCodec) throws {
        GStreamerRuntime.initialise()
        guard codec.isAvailable else { return }
        try withMedia({ $0.rooms.codec = option }) { _, port in
            try RoomPeer.withVideo(port: port, query: query, receives: codec) { peer throws in
                #expect(peer.publisher.negotiatedCodec == .vp8 && peer.subscriber.negotiatedCodec == codec)
                #expect(try peer.waits { peer.frames.load(ordering: .relaxed) > 2 }, "\(peer.progress)")
            }
        }
    }
}
