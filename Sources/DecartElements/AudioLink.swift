// What a media path sends and receives besides the picture, in step with what its connections have agreed upon.
//
// Every method runs on the session's queue.
import WebRTCTransport

struct AudioLink {
    private var isSending = false
    private var isReceiving = false

    /// Builds what is wanted and agreed upon and not there yet; takes down what is not any more.
    mutating func settle(
        _ path: MediaPath, isWanted: Bool, sender: PeerConnection, receiver: PeerConnection
    ) throws {
        let sends = isWanted && sender.audioDirection?.sends ?? false
        let receives = isWanted && receiver.audioDirection?.receives ?? false
        if isSending && !sends || isReceiving && !receives { stop(path) }
        if sends, !isSending {
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
