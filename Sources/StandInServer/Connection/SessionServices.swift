struct SessionServices: Sendable {
    let board: SessionBoard
    let viewers: ViewerBoard
    let journal: Journal
    let rooms: RoomBoard
    let media: MediaServices
    let answersLatencyMarker: Bool
    let isStrict: Bool
}
