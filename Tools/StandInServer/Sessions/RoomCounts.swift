/// Counts of the client's requests in its room.
package struct RoomCounts: Sendable, Equatable {
    package internal(set) var joinCount = 0
    /// Joins with a single connection for both directions.
    package internal(set) var singleJoinCount = 0
    /// Number of times the client has resumed its stay in the room.
    package internal(set) var resumeCount = 0
    /// The client's offers; an offer in a join request is not one of them.
    package internal(set) var offerCount = 0
    /// SIDs of the client's muted tracks.
    package internal(set) var mutedTracks: [String] = []
}
