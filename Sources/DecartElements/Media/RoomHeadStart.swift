import Signalling
import WebRTCTransport

/// What is prepared for a room before it is named: the connection to the server of the last room, and candidates.
struct RoomHeadStart: Sendable {
    var connection: EarlyConnection?
    var gathering: EarlyGathering?

    func close() {
        connection?.close()
        gathering?.close()
    }
}
