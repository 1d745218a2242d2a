import DecartProtocol
import LiveKitProtocol
import StandInServer
import Testing

/// A scripted room participant: it sends what the test requests and keeps all responses.
struct RoomClient {
    let client: TestClient

    /// - Parameter query: additional query items, each with its `&`.
    static func target(_ token: String, query: String = "") -> String {
        "/rtc?access_token=\(token)&protocol=16&sdk=rust" + query
    }

    init(_ client: TestClient) { self.client = client }

    init(port: Int, token: String) throws {
        self.init(try TestClient(port: port, target: Self.target(token)))
    }

    /// Joins with one peer connection for both directions.
    init(port: Int, token: String, single join: LiveKitJoinRequest) throws {
        let text = try Self.text { $0.joinRequest = join.serializedBytes() }
        client = try TestClient(port: port, target: "/rtc/v1?access_token=\(token)&join_request=\(text)")
    }

    /// Encodes a `join_request`.
    static func text(_ body: (inout LiveKitWrappedJoinRequest) throws -> Void) throws -> String {
        let bytes = try LiveKitWrappedJoinRequest.with(body).serializedBytes()
        let digits = Base64.encode(bytes, alphabet: .url)
        return digits + String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
    }

    func send(_ body: (inout LiveKitSignalRequest) -> Void) throws {
        client.send(.binary, LiveKitSignalRequest.with(body).serializedBytes())
    }

    /// Returns the next response; throws if another event comes.
    func next(milliseconds: Int = 20_000) throws -> LiveKitSignalResponse.Message {
        guard case .binary(let bytes) = try client.next(milliseconds: milliseconds) else { throw TestClient.TimedOut() }
        return try #require(LiveKitSignalResponse(serializedBytes: bytes).message)
    }

    /// Skips responses until one matches.
    func next<Result>(_ fits: (LiveKitSignalResponse.Message) -> Result?) throws -> Result {
        while true {
            if let result = fits(try next()) { return result }
        }
    }

    func offer() throws -> LiveKitSessionDescription {
        try next { if case .offer(let offer) = $0 { offer } else { nil } }
    }

    /// Returns when the server has read all that was sent before.
    func awaitPong() throws {
        try send { $0.ping = 1 }
        _ = try next { if case .pong(let time) = $0 { time } else { nil } }
    }

    /// Skips responses until participants are announced; returns the tracks of the first.
    func announcedTracks() throws -> [LiveKitTrackInfo] {
        try next { if case .update(let update) = $0 { update.participants.first?.tracks } else { nil } }
    }

    func leave() throws -> LiveKitLeaveRequest {
        try next { if case .leave(let leave) = $0 { leave } else { nil } }
    }

    /// Publishes a camera as a client does: announces the track, then offers.
    func publish() throws {
        try send {
            $0.addTrack = .with {
                $0.cid = "camera-1"
                $0.type = .video
                $0.source = .camera
            }
        }
        try send { $0.offer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "video", 7) } }
    }

    func subscribe(_ sid: String) throws {
        try send { $0.subscription = .with { ($0.trackSids, $0.subscribe) = ([sid], true) } }
    }

    func answer(_ offer: LiveKitSessionDescription) throws {
        try send { $0.answer = .with { ($0.type, $0.sdp, $0.id) = ("answer", "yes", offer.id) } }
    }

    func expectClosed() throws {
        #expect(try client.next() == .closeFrame(code: 1000))
        #expect(try client.next() == .closed)
    }
}

extension TestServer {
    static let roomTarget = target + "&livekit_early_room_info=true"

    /// Opens a control channel and requests a room.
    func askForRoom(_ join: LiveKitJoin = LiveKitJoin()) throws -> (control: TestClient, info: LiveKitRoomInfo) {
        let control = try connect(Self.roomTarget)
        try control.send(.livekitJoin(join))
        guard case .message(.livekitRoomInfo(let info)) = try control.next() else { throw TestClient.TimedOut() }
        return (control, info)
    }

    /// Opens a control channel, requests a room and joins it.
    func enterRoom() throws -> (info: LiveKitRoomInfo, room: RoomClient) {
        let info = try askForRoom().info
        return (info, try join(info))
    }

    func join(_ info: LiveKitRoomInfo, query: String = "") throws -> RoomClient {
        RoomClient(try connect(RoomClient.target(info.token.reveal(), query: query)))
    }
}
