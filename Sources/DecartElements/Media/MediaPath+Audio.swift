// Audio of a media path: it starts and stops while the video keeps running.
//
// Every method runs on the session's queue, which may block in GStreamer.
import GStreamerKit
import MediaPipeline
import WebRTCTransport

extension MediaPath {
    /// Builds what sends through a connection that has negotiated its `audioSendParameters`.
    func sendAudio(through connection: PeerConnection) throws {
        guard let bin, let parameters = connection.audioSendParameters,
            let sink = connection.bin.staticPad("audio_rtp_sink")
        else { return }
        adaptReports()
        try audio.send(parameters, to: sink, in: bin)
    }

    /// Adds the pad `audio_src` if it is missing, and builds the decoder behind a connection that may receive audio.
    func receiveAudio(from connection: PeerConnection) throws {
        guard let bin, let source = connection.bin.staticPad("audio_rtp_src") else { return }
        adaptReports()
        // `receive` asks the pad's peer whether it takes Opus or samples, so the pad must exist first.
        host.audio.show(as: host.output.identity)
        try audio.receive(from: source, in: bin)
    }

    /// Stops sending and removes the decoder when audio is withdrawn or the path ends. May be called repeatedly.
    func stopAudio() {
        if let bin { audio.stop(in: bin) }
    }
}
