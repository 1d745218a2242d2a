import Signalling
import WebRTCTransport

/// Prepared before the service names the room: a connection to the server of the process's last room, and ICE candidates.
struct RoomHeadStart: Sendable {
    var connection: EarlyConnection?
    var gathering: EarlyGathering?

    func close() {
        connection?.close()
        gathering?.close()
    }
}
