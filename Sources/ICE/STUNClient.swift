private import CNice

/// The client's side of a binding request or of a TURN allocation, for a diagnosis: bytes go in, steps come out. libnice
/// makes and reads the messages; the driver repeats requests and limits the time. Belongs to one thread.
package final class STUNClient {
    package enum Step: Sendable, Equatable {
        /// The message is not an answer to the request.
        case none
        case send([UInt8])
        case done(Answer)
    }

    package enum Answer: Sendable, Equatable {
        /// The server answered the binding request.
        case mapped
        /// The server allocated a relay. `release` is the request that frees it.
        case relayed(release: [UInt8])
        /// The server rejected the credentials.
        case refused
        case failed(code: Int, reason: String)
        /// The answer does not follow the protocol, or the credentials are too long.
        case invalid
    }

    private static let maximumSize = 2048
    private let isTURN: Bool
    private let memory: STUNMemory
    private let username: [UInt8]
    /// The answer that asked for credentials, with the server's realm and nonce; empty before.
    private var challenge: [UInt8] = []
    /// Nonces that expired while they were used; a server may do that once.
    private var staleCount = 0

    package init(server: ICEServer) {
        isTURN = server.kind == .turn
        memory = STUNMemory(password: server.credential ?? "", isCheck: false)
        username = [UInt8]((server.username ?? "").utf8)
    }

    package func start() -> [UInt8] { request() ?? [] }

    /// Size of the message that begins with these bytes; nil if there are not enough of them.
    package static func size(of bytes: [UInt8]) -> Int? {
        bytes.count >= 4 ? 20 + Int(bytes[2]) << 8 + Int(bytes[3]) : nil
    }

    package func received(_ bytes: [UInt8]) -> Step {
        guard (20...Self.maximumSize).contains(bytes.count) else { return .none }
        return bytes.withUnsafeBufferPointer { buffer in
            var message = StunMessage()
            switch stun_agent_validate(memory.agent, &message, buffer.baseAddress, buffer.count, nil, nil) {
            // Without a valid MESSAGE-INTEGRITY the answer still tells what the server objects to.
            case STUN_VALIDATION_SUCCESS, STUN_VALIDATION_UNAUTHORIZED: break
            case STUN_VALIDATION_UNKNOWN_ATTRIBUTE: return .done(.invalid)
            default: return .none
            }
            switch stun_message_get_class(&message) {
            case STUN_RESPONSE: return .done(success(&message))
            case STUN_ERROR: return error(&message, bytes)
            default: return .none
            }
        }
    }

    private func success(_ message: inout StunMessage) -> Answer {
        guard isTURN else { return .mapped }
        guard let relayed = attribute(STUN_ATTRIBUTE_XOR_RELAYED_ADDRESS, of: &message), relayed.count >= 8,
            let release = request(refresh: true)
        else { return .invalid }
        return .relayed(release: release)
    }

    private func error(_ message: inout StunMessage, _ bytes: [UInt8]) -> Step {
        var code: Int32 = 0
        guard stun_message_find_error(&message, &code) == STUN_MESSAGE_RETURN_SUCCESS,
            let value = attribute(STUN_ATTRIBUTE_ERROR_CODE, of: &message)
        else { return .done(.invalid) }
        switch code {
        case 401 where isTURN && challenge.isEmpty, 438 where !challenge.isEmpty && staleCount == 0:
            if code == 438 { staleCount += 1 }
            guard attribute(STUN_ATTRIBUTE_REALM, of: &message) != nil,
                attribute(STUN_ATTRIBUTE_NONCE, of: &message) != nil
            else { return .done(.invalid) }
            challenge = bytes
            return request().map(Step.send) ?? .done(.invalid)
        case 401: return .done(.refused)
        default: return .done(.failed(code: Int(code), reason: String(decoding: value.dropFirst(4), as: UTF8.self)))
        }
    }

    private func attribute(_ type: StunAttribute, of message: inout StunMessage) -> UnsafeBufferPointer<UInt8>? {
        var size: UInt16 = 0
        guard let value = stun_message_find(&message, type, &size) else { return nil }
        return UnsafeBufferPointer(start: value.assumingMemoryBound(to: UInt8.self), count: Int(size))
    }

    /// - Parameter refresh: frees the relay instead of allocating it.
    /// - Returns: nil if the credentials are too long.
    private func request(refresh: Bool = false) -> [UInt8]? {
        var (challenge, username) = (challenge, username)
        let (agent, password) = (memory.agent, memory.password)
        return withUnsafeTemporaryAllocation(byteCount: Self.maximumSize, alignment: 8) { buffer in
            guard let bytes = buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
            let length = challenge.withUnsafeMutableBufferPointer { challenge in
                var (message, previous) = (StunMessage(), StunMessage())
                (previous.agent, previous.buffer, previous.buffer_len) = (agent, challenge.baseAddress, challenge.count)
                return withUnsafeMutablePointer(to: &previous) { previous in
                    let before = challenge.isEmpty ? nil : previous
                    guard isTURN else { return stun_usage_bind_create(agent, &message, bytes, buffer.count) }
                    guard refresh else {
                        return stun_usage_turn_create(
                            agent, &message, bytes, buffer.count, before, STUN_USAGE_TURN_REQUEST_PORT_NORMAL, -1, -1,
                            &username, username.count, password.baseAddress, password.count,
                            STUN_USAGE_TURN_COMPATIBILITY_RFC5766)
                    }
                    return stun_usage_turn_create_refresh(
                        agent, &message, bytes, buffer.count, before, 0, &username, username.count,
                        password.baseAddress, password.count, STUN_USAGE_TURN_COMPATIBILITY_RFC5766)
                }
            }
            return (20...buffer.count).contains(length) ? Array(buffer[..<length]) : nil
        }
    }
}
