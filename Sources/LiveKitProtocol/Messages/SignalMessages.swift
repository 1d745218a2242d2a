// The part of LiveKit's signalling protocol that a client of a room, and the room of the stand-in, need. Names and numbers
// are those of LiveKit's livekit_rtc.proto and livekit_models.proto; all other fields are unknown fields here.
// Tests/System/Peers/check_messages.py compares the tables with LiveKit's own.

/// A message from the client to the server.
package struct LiveKitSignalRequest: OneOfMessage {
    package enum Message: Sendable, Equatable {
        case offer(LiveKitSessionDescription)
        case answer(LiveKitSessionDescription)
        case trickle(LiveKitTrickleRequest)
        case addTrack(LiveKitAddTrackRequest)
        case mute(LiveKitMuteTrackRequest)
        case subscription(LiveKitUpdateSubscription)
        case leave(LiveKitLeaveRequest)
        case syncState(LiveKitSyncState)
        case ping(Int64)
        case pingReq(LiveKitPing)
    }

    package struct Cases: Sendable {
        package let offer = Case(1, Message.offer) { if case .offer(let value) = $0 { value } else { nil } }
        package let answer = Case(2, Message.answer) { if case .answer(let value) = $0 { value } else { nil } }
        package let trickle = Case(3, Message.trickle) { if case .trickle(let value) = $0 { value } else { nil } }
        package let addTrack = Case(4, Message.addTrack) { if case .addTrack(let value) = $0 { value } else { nil } }
        package let mute = Case(5, Message.mute) { if case .mute(let value) = $0 { value } else { nil } }
        package let subscription = Case(6, Message.subscription) {
            if case .subscription(let value) = $0 { value } else { nil }
        }
        package let leave = Case(8, Message.leave) { if case .leave(let value) = $0 { value } else { nil } }
        package let syncState = Case(12, Message.syncState) {
            if case .syncState(let value) = $0 { value } else { nil }
        }
        package let ping = Case(14, Message.ping) { if case .ping(let value) = $0 { value } else { nil } }
        package let pingReq = Case(16, Message.pingReq) { if case .pingReq(let value) = $0 { value } else { nil } }
    }

    package var message: Message?
    package var unknownFields: [UInt8] = []

    package static let cases = Cases()
    package static let fields: Fields = [
        Field(cases.offer), Field(cases.answer), Field(cases.trickle), Field(cases.addTrack), Field(cases.mute),
        Field(cases.subscription), Field(cases.leave), Field(cases.syncState), Field(cases.ping), Field(cases.pingReq),
    ]
    package init() {}
}

/// A message from the server to the client. Offer and answer have each other's numbers of the request.
package struct LiveKitSignalResponse: OneOfMessage {
    package enum Message: Sendable, Equatable {
        case join(LiveKitJoinResponse)
        case answer(LiveKitSessionDescription)
        case offer(LiveKitSessionDescription)
        case trickle(LiveKitTrickleRequest)
        case update(LiveKitParticipantUpdate)
        case trackPublished(LiveKitTrackPublishedResponse)
        case leave(LiveKitLeaveRequest)
        case mute(LiveKitMuteTrackRequest)
        case roomUpdate(LiveKitRoomUpdate)
        case connectionQuality(LiveKitConnectionQualityUpdate)
        case streamStateUpdate(LiveKitStreamStateUpdate)
        case subscribedQualityUpdate(LiveKitSubscribedQualityUpdate)
        case subscriptionPermissionUpdate(LiveKitSubscriptionPermissionUpdate)
        case refreshToken(String)
        case trackUnpublished(LiveKitTrackUnpublishedResponse)
        case pong(Int64)
        case reconnect(LiveKitReconnectResponse)
        case pongResp(LiveKitPong)
        case subscriptionResponse(LiveKitSubscriptionResponse)
        case requestResponse(LiveKitRequestResponse)
        case trackSubscribed(LiveKitTrackSubscribed)
        case roomMoved(LiveKitRoomMovedResponse)
        case mediaSectionsRequirement(LiveKitMediaSectionsRequirement)
    }

    package struct Cases: Sendable {
        package let join = Case(1, Message.join) { if case .join(let value) = $0 { value } else { nil } }
        package let answer = Case(2, Message.answer) { if case .answer(let value) = $0 { value } else { nil } }
        package let offer = Case(3, Message.offer) { if case .offer(let value) = $0 { value } else { nil } }
        package let trickle = Case(4, Message.trickle) { if case .trickle(let value) = $0 { value } else { nil } }
        package let update = Case(5, Message.update) { if case .update(let value) = $0 { value } else { nil } }
        package let trackPublished = Case(6, Message.trackPublished) {
            if case .trackPublished(let value) = $0 { value } else { nil }
        }
        package let leave = Case(8, Message.leave) { if case .leave(let value) = $0 { value } else { nil } }
        package let mute = Case(9, Message.mute) { if case .mute(let value) = $0 { value } else { nil } }
        package let roomUpdate = Case(11, Message.roomUpdate) {
            if case .roomUpdate(let value) = $0 { value } else { nil }
        }
        package let connectionQuality = Case(12, Message.connectionQuality) {
            if case .connectionQuality(let value) = $0 { value } else { nil }
        }
        package let streamStateUpdate = Case(13, Message.streamStateUpdate) {
            if case .streamStateUpdate(let value) = $0 { value } else { nil }
        }
        package let subscribedQualityUpdate = Case(14, Message.subscribedQualityUpdate) {
            if case .subscribedQualityUpdate(let value) = $0 { value } else { nil }
        }
        package let subscriptionPermissionUpdate = Case(15, Message.subscriptionPermissionUpdate) {
            if case .subscriptionPermissionUpdate(let value) = $0 { value } else { nil }
        }
        package let refreshToken = Case(16, Message.refreshToken) {
            if case .refreshToken(let value) = $0 { value } else { nil }
        }
        package let trackUnpublished = Case(17, Message.trackUnpublished) {
            if case .trackUnpublished(let value) = $0 { value } else { nil }
        }
        package let pong = Case(18, Message.pong) { if case .pong(let value) = $0 { value } else { nil } }
        package let reconnect = Case(19, Message.reconnect) {
            if case .reconnect(let value) = $0 { value } else { nil }
        }
        package let pongResp = Case(20, Message.pongResp) { if case .pongResp(let value) = $0 { value } else { nil } }
        package let subscriptionResponse = Case(21, Message.subscriptionResponse) {
            if case .subscriptionResponse(let value) = $0 { value } else { nil }
        }
        package let requestResponse = Case(22, Message.requestResponse) {
            if case .requestResponse(let value) = $0 { value } else { nil }
        }
        package let trackSubscribed = Case(23, Message.trackSubscribed) {
            if case .trackSubscribed(let value) = $0 { value } else { nil }
        }
        package let roomMoved = Case(24, Message.roomMoved) {
            if case .roomMoved(let value) = $0 { value } else { nil }
        }
        package let mediaSectionsRequirement = Case(25, Message.mediaSectionsRequirement) {
            if case .mediaSectionsRequirement(let value) = $0 { value } else { nil }
        }
    }

    package var message: Message?
    package var unknownFields: [UInt8] = []

    package static let cases = Cases()
    package static let fields: Fields = [
        Field(cases.join), Field(cases.answer), Field(cases.offer), Field(cases.trickle), Field(cases.update),
        Field(cases.trackPublished), Field(cases.leave), Field(cases.mute), Field(cases.roomUpdate),
        Field(cases.connectionQuality), Field(cases.streamStateUpdate), Field(cases.subscribedQualityUpdate),
        Field(cases.subscriptionPermissionUpdate), Field(cases.refreshToken), Field(cases.trackUnpublished),
        Field(cases.pong), Field(cases.reconnect),
        Field(cases.pongResp), Field(cases.subscriptionResponse), Field(cases.requestResponse),
        Field(cases.trackSubscribed), Field(cases.roomMoved), Field(cases.mediaSectionsRequirement),
    ]
    package init() {}
}
