/// The services that the connections of sessions and of their rooms need.
struct SessionServices: Sendable {
    let board: SessionBoard
    let viewers: ViewerBoard
    let journal: Journal
    let rooms: RoomBoard
    let media: MediaServices
    let answersLatencyMarker: Bool
    let isStrict: Bool
}
