// LiveKit signalling: its wire format, and server messages in any state of a stay.
import DecartProtocol
import LiveKitProtocol
import LiveKitTransport
import RTP
import WebRTCTransport

func roomInput(_ bytes: [UInt8]) {
    check(LiveKitSignalRequest.self, bytes)
    check(LiveKitSignalResponse.self, bytes)
    check(LiveKitJoinRequest.self, bytes)
    // The input is tested as one message, and its halves as two in sequence.
    let half = bytes.count / 2
    for parts in [[bytes], [Array(bytes[..<half]), Array(bytes[half...])]] {
        let messages = parts.compactMap { try? LiveKitSignalResponse(serializedBytes: $0) }
        guard messages.count == parts.count else { continue }
        let (opened, offer) = (RoomEvent.signalling(.opened), RoomEvent.peer(.offerMade(sdp: "v=0")))
        let beginnings = [
            [opened], [opened, .signalling(.message(.with { $0.join = .init() })), offer],
        ]
        // A connected stay that resumes: after its loss, and after the server's first message.
        let connected: [RoomEvent] = [
            opened,
            .signalling(
                .message(.with { $0.join = .with { ($0.participant.sid, $0.subscriberPrimary) = ("PA_me", true) } })),
            .signalling(.message(.with { $0.trackPublished = .with { ($0.cid, $0.track.sid) = ("camera", "TR_in") } })),
            offer, .signalling(.message(.with { $0.answer.sdp = "v=0" })), .peer(.peerConnected(.publisher)),
            .peer(.peerConnected(.subscriber)),
        ]
        let resuming = connected + [.peer(.pathLost(.publisher)), .request(.recover), opened]
        let stays = [resuming, resuming + [.signalling(.message(.with { $0.reconnect = .init() })), offer]]
        let joining: [RoomEvent] = [.request(.open), offer]
        let all =
            (beginnings + stays).map { (isSingle: false, events: $0) }
            + (beginnings + stays).map { (isSingle: true, events: joining + $0) }
        for (isSingle, events) in all {
            var configuration = RoomConfiguration(width: 1280, height: 704, bitrate: 1_000_000, codec: .vp8)
            configuration.prefersOneConnection = isSingle
            var machine = RoomMachine(configuration: configuration, token: Secret("t"))
            let received = messages.map { RoomEvent.signalling(.message($0)) }
            for event in events + received + [.timerFired(.ping), .request(.stop)] {
                for order in machine.handle(event, now: .seconds(1)) {
                    if case .send(let message) = order {
                        let bytes = LiveKitSignalRequest.with { $0.message = message }.serializedBytes()
                        precondition((try? LiveKitSignalRequest(serializedBytes: bytes))?.message == message)
                    }
                }
            }
            _ = machine.isWanted(msid: String(decoding: bytes.prefix(64), as: UTF8.self))
        }
    }
}

/// A message that can be read is written and read again.
private func check<Message: WireMessage>(_ kind: Message.Type, _ bytes: [UInt8]) {
    guard let message = try? Message(serializedBytes: bytes) else { return }
    precondition((try? Message(serializedBytes: message.serializedBytes())) == message)
}
