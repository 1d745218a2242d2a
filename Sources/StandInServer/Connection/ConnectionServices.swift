import Dispatch

/// What all connections of a stand-in share.
struct ConnectionServices: Sendable {
    let board: SessionBoard
    let engine: any MediaEngine
    let faults: FaultBoard
    let rooms = RoomBoard()
    let audiences = AudienceBoard()
    let roomICE: RoomICE
    let servesSingleConnections: Bool
    /// How long a model thinks.
    let delay: Duration
    let answersLatencyMarker: Bool
    let log: @Sendable (String) -> Void
    /// Entered once for every media session, left when it is torn down.
    let mediaGroup = DispatchGroup()
}

/// Peers' words in a log: one line, short, printable.
enum LogText {
    static func clean(_ text: String) -> String {
        let printable = text.unicodeScalars.prefix(80).map { scalar in
            scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) ? "?" : Character(scalar)
        }
        return String(printable)
    }
}
