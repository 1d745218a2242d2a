// Frames of a WebSocket, for a reader of either role. The parts in which the bytes come must change nothing, and what was
// read must come back when it is written and read again.
import Network

func webSocketInput(_ bytes: [UInt8]) {
    for (role, peer) in [(WebSocketRole.client, WebSocketRole.server), (.server, .client)] {
        let limits = WebSocketLimits(messageSize: 4096, frameSize: 2048, fragments: 8)
        let reader = WebSocketReader(role: role, limits: limits)
        let events = read([bytes[...]], reader)
        for event in events { check(event) }
        precondition(!events.dropLast().contains { $0.isLast })
        precondition(read(bytes.indices.map { bytes[$0...$0] }, reader) == events)
        let middle = bytes.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF } % (bytes.count + 1)
        precondition(read([bytes[..<middle], bytes[middle...]], reader) == events)

        let valid = events.filter { if case .violation = $0 { false } else { true } }
        let written = valid.flatMap { frame($0, as: peer) }
        let lenient = WebSocketReader(role: role, limits: WebSocketLimits(messageSize: 4096, fragments: 1))
        precondition(read([written[...]], lenient) == valid)
    }
}

private func read(_ parts: [ArraySlice<UInt8>], _ reader: WebSocketReader) -> [WebSocketEvent] {
    var reader = reader
    var events: [WebSocketEvent] = []
    for part in parts {
        reader.append(part)
        while let event = reader.next() { events.append(event) }
    }
    if case .violation = events.last { precondition(reader.hasFailed) } else { precondition(!reader.hasFailed) }
    return events
}

private func check(_ event: WebSocketEvent) {
    switch event {
    case .text(let bytes): precondition(bytes.count <= 4096 && String(validating: bytes, as: UTF8.self) != nil)
    case .binary(let bytes): precondition(bytes.count <= 4096)
    case .ping(let bytes), .pong(let bytes): precondition(bytes.count <= 125)
    case .close(let code, let reason): precondition(reason.utf8.count <= (code == nil ? 0 : 123))
    case .violation(let code, let reason): precondition([1002, 1007, 1009].contains(code) && !reason.isEmpty)
    }
}

private func frame(_ event: WebSocketEvent, as role: WebSocketRole) -> [UInt8] {
    switch event {
    case .text(let bytes): WebSocketFrame.bytes(.text, bytes, as: role)
    case .binary(let bytes): WebSocketFrame.bytes(.binary, bytes, as: role)
    case .ping(let bytes): WebSocketFrame.bytes(.ping, bytes, as: role)
    case .pong(let bytes): WebSocketFrame.bytes(.pong, bytes, as: role)
    case .close(let code, let reason): WebSocketFrame.close(code: code, reason: reason, as: role)
    case .violation: []
    }
}

extension WebSocketEvent {
    fileprivate var isLast: Bool {
        switch self {
        case .close, .violation: true
        case .text, .binary, .ping, .pong: false
        }
    }
}
