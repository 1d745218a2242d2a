// Builds and removes a media path's audio branches as its connections negotiate audio directions.
//
// Every method runs on the session's queue.
import WebRTCTransport

struct AudioNegotiation {
    private var isSending = false
    private var isReceiving = false

    /// Builds the branches that are wanted and negotiated. If a running one no longer is, both are stopped first.
    /// - Parameter sender: nil for a viewer in a room.
    mutating func update(
        _ path: MediaPath, isWanted: Bool, sender: PeerConnection?, receiver: PeerConnection
    ) throws {
        let sends = isWanted && sender?.audioDirection?.sends ?? false
        let receives = isWanted && receiver.audioDirection?.receives ?? false
        if isSending && !sends || isReceiving && !receives { stop(path) }
        if sends, !isSending, let sender {
            isSending = true
            try path.sendAudio(through: sender)
        }
        if receives, !isReceiving {
            isReceiving = true
            try path.receiveAudio(from: receiver)
        }
    }

    mutating func stop(_ path: MediaPath) {
        (isSending, isReceiving) = (false, false)
        path.stopAudio()
    }
}
