// Audio of a media path: its branches come and go as the connections negotiate audio directions, while the video keeps
// running.
//
// Every method runs on the session's queue, which may block in GStreamer.
import GStreamerKit
import MediaPipeline
import WebRTCTransport

extension MediaPath {
    /// Builds the branches that are wanted and negotiated. If a running one no longer is, both are stopped first.
    /// - Parameter sender: nil for a viewer in a room.
    func updateAudio(isWanted: Bool, sender: PeerConnection?, receiver: PeerConnection) throws {
        let sends = isWanted && sender?.audioDirection?.sends ?? false
        let receives = isWanted && receiver.audioDirection?.receives ?? false
        if isSendingAudio && !sends || isReceivingAudio && !receives { stopAudio() }
        if sends, let sender {
            if isSendingAudio {
                sender.audioSendParameters.map(audio.update)
            } else {
                isSendingAudio = true
                try sendAudio(through: sender)
            }
        }
        if receives, !isReceivingAudio {
            isReceivingAudio = true
            try receiveAudio(from: receiver)
        }
    }

    /// Builds what sends through a connection that has negotiated its `audioSendParameters`.
    private func sendAudio(through connection: PeerConnection) throws {
        guard let bin, let parameters = connection.audioSendParameters,
            let sink = connection.bin.staticPad("audio_rtp_sink")
        else { return }
        adaptReports()
        try audio.send(parameters, to: sink, in: bin)
    }

    /// Adds the pad `audio_src` if it is missing, and builds the decoder behind a connection that may receive audio.
    private func receiveAudio(from connection: PeerConnection) throws {
        guard let bin, let source = connection.bin.staticPad("audio_rtp_src") else { return }
        adaptReports()
        // `receive` asks the pad's peer whether it takes Opus or samples, so the pad must exist first.
        host.audio.show(as: host.output.identity)
        try audio.receive(from: source, in: bin)
    }

    /// Stops sending and removes the decoder when audio is withdrawn or the path ends. May be called repeatedly.
    func stopAudio() {
        (isSendingAudio, isReceivingAudio) = (false, false)
        if let bin { audio.stop(in: bin) }
    }
}
