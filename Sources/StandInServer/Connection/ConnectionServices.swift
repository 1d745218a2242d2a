import Dispatch

/// Services shared by all connections of a stand-in.
struct ConnectionServices: Sendable {
    let board: SessionBoard
    let engine: any MediaEngine
    let faults: FaultBoard
    let rooms = RoomBoard()
    let viewerBoard = ViewerBoard()
    let clientTokens = ClientTokens()
    let journal: Journal
    let roomICE: RoomICE
    let servesSingleConnections: Bool
    /// Simulated inference time of a frame.
    let delay: Duration
    let answersLatencyMarker: Bool
    let carriesTrailers: Bool
    /// The recording to replay; nil: none.
    let replay: ReplayBoard?
    let log: @Sendable (String) -> Void
    /// Entered for each media session, left when its teardown has completed.
    let mediaGroup = DispatchGroup()
}

/// Makes text from a peer safe to log: at most 80 printable characters on one line.
enum LogText {
    static func clean(_ text: String) -> String {
        let printable = text.unicodeScalars.prefix(80).map { scalar in
            scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) ? "?" : Character(scalar)
        }
        return String(printable)
    }
}
