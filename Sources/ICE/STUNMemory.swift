internal import CNice

/// libnice's `StunAgent`, and the password of which libnice keeps a pointer with each request in flight.
final class STUNMemory {
    /// Untyped, so that clients of this module do not load libnice's headers for its layout.
    private let memory: UnsafeMutableRawPointer
    let password: UnsafeMutableBufferPointer<UInt8>

    /// - Parameter isCheck: the agent is for connectivity checks, not for servers.
    init(password text: String, isCheck: Bool) {
        memory = .allocate(byteCount: MemoryLayout<StunAgent>.size, alignment: MemoryLayout<StunAgent>.alignment)
        password = .allocate(capacity: max(1, text.utf8.count))
        _ = password.initialize(from: text.utf8)
        gst_decart_stun_init(agent, isCheck)
    }

    deinit {
        memory.deallocate()
        password.deallocate()
    }

    var agent: UnsafeMutablePointer<StunAgent> { memory.assumingMemoryBound(to: StunAgent.self) }
}
