/// The names and SIDs of one room.
struct RoomIdentity: Sendable, Equatable {
    let name: String
    let sid = Self.sid("RM")
    private(set) var participant: String
    private(set) var participantSID = Self.sid("PA")
    /// Clients subscribe to tracks of participants whose identity begins with `inference-server-`.
    let inferenceServer: String
    let inferenceSID = Self.sid("PA")
    let trackSID = Self.sid("TR")

    init() {
        name = "room-" + Self.random
        participant = "client-" + Self.random
        inferenceServer = "inference-server-" + Self.random
    }

    /// Returns the same room for one more stay of a participant.
    func joined(by participant: String) -> RoomIdentity {
        var copy = self
        (copy.participant, copy.participantSID) = (participant, Self.sid("PA"))
        return copy
    }

    static var newViewer: String { "viewer-" + random }

    private static var random: String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Makes a SID; its prefix is its kind (RM, PA, TR).
    static func sid(_ kind: String) -> String { "\(kind)_\(random)" }
}
