private import CNice
import EventLoopThreads

/// Answers the remote peer's connectivity checks on a connection of which libnice does not know. Belongs to the network
/// thread.
final class CheckResponder {
    private let memory: STUNMemory
    private let username: [UInt8]

    init(local: ICECredentials, remoteFragment: String) {
        memory = STUNMemory(password: local.password, isCheck: true)
        username = Array("\(local.usernameFragment):\(remoteFragment)".utf8)
    }

    /// Returns the response to an authentic check; nil for any other datagram.
    /// - Parameter isControlling: our role, which a role conflict (RFC 8445 §7.3.1.1) changes.
    func response(
        to datagram: UnsafeMutableRawBufferPointer, from source: SocketAddress, isControlling: inout Bool,
        tieBreaker: UInt64
    ) -> [UInt8]? {
        guard datagram.count >= 20, datagram[0] == 0, datagram[1] == 1 else { return nil }
        var request = StunMessage()
        guard validate(datagram, &request) == STUN_VALIDATION_SUCCESS else { return nil }
        var (response, length, controls) = (StunMessage(), 512, isControlling)
        let bytes = [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
            let capacity = buffer.count
            length = capacity
            source.withSocketAddress { address, size in
                _ = stun_usage_ice_conncheck_create_reply(
                    memory.agent, &request, &response, buffer.baseAddress, &length,
                    UnsafeRawPointer(address).assumingMemoryBound(to: sockaddr_storage.self), size, &controls,
                    tieBreaker, STUN_USAGE_ICE_COMPATIBILITY_RFC5245)
            }
            count = min(length, capacity)
        }
        isControlling = controls
        return bytes.isEmpty ? nil : bytes
    }

    private func validate(
        _ datagram: UnsafeMutableRawBufferPointer, _ request: inout StunMessage
    ) -> StunValidationStatus {
        var name = username
        return name.withUnsafeMutableBufferPointer { name in
            // The entry without a name ends the list.
            var known = [StunDefaultValidaterData](repeating: StunDefaultValidaterData(), count: 2)
            known[0].username = name.baseAddress
            known[0].username_len = name.count
            known[0].password = memory.password.baseAddress
            known[0].password_len = memory.password.count
            return known.withUnsafeMutableBytes { known in
                stun_agent_validate(
                    memory.agent, &request, datagram.baseAddress?.assumingMemoryBound(to: UInt8.self), datagram.count,
                    stun_agent_default_validater, known.baseAddress)
            }
        }
    }
}
