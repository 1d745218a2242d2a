// State that a session's control channel shares with the connections to its room.
import LiveKitProtocol
import Synchronization
import WebRTCTransport

enum RoomNotice: Sendable {
    /// The same participant has joined again.
    case replaced
    case closed
    /// The watched session has audio now, or no longer.
    case audio(Bool)
    /// The generation has ended, and its track is unpublished.
    case withdrawOutput
    /// The participant's tracks have changed.
    case ownerChanged(LiveKitParticipantInfo)
    /// The generation has restarted, and the output comes back in this way.
    case restartOutput(Fault.Output)
}

final class Room: Sendable {
    let identity: RoomIdentity
    let sessionID: String
    let number: Int
    let painter: FramePainter
    /// Codec of the transformed video; nil: that of the participant's.
    let codec: OutputCodec?
    let faults: Mutex<FaultPlan>
    /// Ends the frames that the room itself makes.
    let fillerTrailer = (0..<44).map { _ in UInt8.random(in: UInt8(ascii: "a")...UInt8(ascii: "z")) }
    /// The participant as viewers see it; nil before its first track.
    let owner = Mutex<LiveKitParticipantInfo?>(nil)
    /// Features of the trailers of the session's frames.
    let trailers = Mutex<[LiveKitPacketTrailerFeature]>([])
    /// The participants by identity. One stays for a while without a connection, so that it can resume.
    private let participants = Mutex<[String: RoomParticipant]>([:])
    /// The URL by which the client reaches the room.
    let url = Mutex("")
    /// The end of the time in which the room accepts no connection.
    private let closedUntil = Mutex<ContinuousClock.Instant?>(nil)

    init(sessionID: String, number: Int, painter: FramePainter, codec: OutputCodec?, faults: FaultPlan) {
        identity = RoomIdentity()
        self.sessionID = sessionID
        self.number = number
        (self.painter, self.codec) = (painter, codec)
        self.faults = Mutex(faults)
    }

    func identity(of join: RoomAdmission.RoomJoin) -> String { join.viewer ?? identity.participant }

    // MARK: Participants (on the stand-in's thread)

    /// A participant without a connection stays while its media live, so the limit of connections does not limit them.
    private static let maximumParticipants = 32

    func hasPlace(for identity: String) -> Bool {
        participants.withLock { $0[identity] != nil || $0.count < Self.maximumParticipants }
    }

    func participant(_ identity: String) -> RoomParticipant? { participants.withLock { $0[identity] } }

    /// Replaces a participant of the same identity.
    func enter(_ participant: RoomParticipant) {
        let former = participants.withLock { $0.updateValue(participant, forKey: participant.identity) }
        former?.notify(.replaced)
    }

    func leave(_ participant: RoomParticipant) {
        participants.withLock { if $0[participant.identity] === participant { $0[participant.identity] = nil } }
    }

    func change(owner: LiveKitParticipantInfo) {
        self.owner.withLock { $0 = owner }
        notify(.ownerChanged(owner))
    }

    /// Notifies the client and the viewers.
    func notify(_ notice: RoomNotice) {
        for participant in participants.withLock({ Array($0.values) }) { participant.notify(notice) }
    }

    func close() {
        painter.viewers.end()
        notify(.closed)
    }

    // MARK: Signalling

    func resetConnections() {
        for participant in participants.withLock({ Array($0.values) }) { participant.resetConnection() }
    }

    /// Accepts no connection for this time, as behind a load balancer whose server restarts.
    func close(for time: Duration) { closedUntil.withLock { $0 = .now + time } }

    var acceptsConnections: Bool { closedUntil.withLock { $0.map { $0 <= .now } ?? true } }
}
