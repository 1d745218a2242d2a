/// Input from outside, by kind. No input may trap, and what each kind promises must hold: its function ends the process
/// otherwise.
package enum FuzzTarget: String, CaseIterable, Sendable {
    case sdp, message, room, image, packet, http, websocket, tls, ice

    package func run(_ bytes: [UInt8]) {
        switch self {
        case .sdp: sdpInput(bytes)
        case .message: messageInput(bytes)
        case .room: roomInput(bytes)
        case .image: imageInput(bytes)
        case .packet: packetInput(bytes)
        case .http: httpInput(bytes)
        case .websocket: webSocketInput(bytes)
        case .tls: tlsInput(bytes)
        case .ice: iceInput(bytes)
        }
    }
}
