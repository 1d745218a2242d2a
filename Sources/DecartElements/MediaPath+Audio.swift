// Sound on a media path, beside the picture: it comes and goes while the picture runs.
//
// Every method runs on the session's queue, which may block in GStreamer.
import GStreamerKit
import WebRTCTransport

extension MediaPath {
    /// The encoder, before a connection whose `audioSendParameters` say what the far side takes.
    func sendAudio(through connection: PeerConnection) throws {}

    /// The decoder, behind a connection that may receive sound; called once for a connection, before the first packet.
    func receiveAudio(from connection: PeerConnection) throws {}

    /// Sound was withdrawn, or the path ends: what `sendAudio` and `receiveAudio` built is taken down. More than once.
    func stopAudio() {}
}
