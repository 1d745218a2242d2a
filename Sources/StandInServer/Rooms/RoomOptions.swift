/// Options of all rooms.
package struct RoomOptions: Sendable, Equatable {
    /// Sent to clients that join a room.
    package var ice = RoomICE()
    /// Rooms also accept a single connection for both directions.
    package var servesSingleConnections = true
    /// Rooms carry the trailers of frames (`FrameTrailer`), and the transformed frame has that of its input frame.
    package var carriesTrailers = true

    package init() {}
}

/// The services that the connections of rooms need.
struct RoomServices: Sendable {
    let rooms: RoomBoard
    let board: SessionBoard
    let media: MediaServices
}
