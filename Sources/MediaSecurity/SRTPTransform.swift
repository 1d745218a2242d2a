// SRTP and SRTCP of one session (RFC 3711, RFC 7714) over libsrtp2. It knows keys and packets, but no handshake and no
// connection state.
private import CSRTP
private import EventLoopThreads
private import Synchronization

/// Protects and unprotects packets in place, without allocating memory per packet.
///
/// Can be used from any thread: the RTP thread and the RTCP thread share the sending context. Each direction has its
/// own lock, which is never held across a callback.
package final class SRTPTransform: Sendable {
    /// Bytes that `protect…` may append: the tag (16 with GCM, 10 with SHA-1) and the SRTCP index (4).
    package static let maximumOverhead = 20

    private let outbound: Mutex<Context>
    private let inbound: Mutex<Context>
    private let tagLength: Int

    package init(keys: SRTPKeyMaterial) throws(SRTPError) {
        guard Self.isInitialised else { throw SRTPError(code: -1) }
        tagLength = keys.profile == .aeadAES128GCM ? 16 : 10
        let outbound = try Context(keys: keys, direction: .outbound)
        let inbound = try Context(keys: keys, direction: .inbound)
        self.outbound = Mutex(outbound)
        self.inbound = Mutex(inbound)
    }

    /// - Parameters:
    ///   - buffer: the packet, with room for at least `maximumOverhead` more bytes.
    /// - Returns: the length of the protected packet; nil if it is malformed, has no room, repeats a sequence number or
    ///   has exhausted the packet index.
    package func protectRTP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        outbound.withLock { $0.protect(buffer, length: length, PacketShape.isRTP, srtp_protect) }
    }

    /// The same as `protectRTP` for a (compound) RTCP packet.
    package func protectRTCP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        outbound.withLock { $0.protect(buffer, length: length, PacketShape.isRTCP, srtp_protect_rtcp) }
    }

    /// - Returns: the length of the plaintext packet; nil if the packet is malformed, not authentic or replayed. The
    ///   buffer's content is then undefined.
    package func unprotectRTP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        inbound.withLock {
            $0.unprotect(buffer, length: length, plain: length &- tagLength, PacketShape.isRTP, srtp_unprotect)
        }
    }

    /// The same as `unprotectRTP` for an SRTCP packet.
    package func unprotectRTCP(_ buffer: UnsafeMutableRawBufferPointer, length: Int) -> Int? {
        inbound.withLock {
            $0.unprotect(
                buffer, length: length, plain: length &- tagLength &- 4, PacketShape.isRTCP, srtp_unprotect_rtcp)
        }
    }

    package var counters: SRTPCounters {
        let sent = outbound.withLock { $0.counters }
        var all = inbound.withLock { $0.counters }
        all.protectRefused = sent.protectRefused
        return all
    }

    /// libsrtp's global initialisation, which takes 15 ms with NSS; false if its crypto library fails to start.
    package static let isInitialised = keepingHostsSIGPIPE(gst_decart_srtp_init)
}

/// Counts of rejected packets.
package struct SRTPCounters: Sendable, Equatable {
    package var protectRefused = 0
    /// Packets too short for their own headers or not RTP; libsrtp never saw them.
    package var malformed = 0
    /// Packets that are not authentic or replayed; `replayed` counts the latter alone.
    package var unprotectRefused = 0
    package var replayed = 0

    package init() {}
}

package struct SRTPError: Error, CustomStringConvertible {
    let code: Int

    package var description: String { "libsrtp could not be set up (status \(code))" }
}

/// The libsrtp session of one direction.
// @unchecked: accessed only through its Mutex; libsrtp keeps no thread-local state.
private struct Context: @unchecked Sendable {
    enum Direction { case outbound, inbound }
    typealias Shape = (_ buffer: UnsafeMutableRawBufferPointer, _ length: Int) -> Bool
    typealias Operation = (srtp_t?, UnsafeMutableRawPointer?, UnsafeMutablePointer<Int32>?) -> srtp_err_status_t

    private let session: Session
    var counters = SRTPCounters()

    init(keys: SRTPKeyMaterial, direction: Direction) throws(SRTPError) {
        var policy = srtp_policy_t()
        let status = gst_decart_srtp_set_profile(&policy, keys.profile == .aeadAES128GCM ? 1 : 0)
        guard status == 0 else { throw SRTPError(code: Int(status)) }
        policy.ssrc.type = direction == .outbound ? ssrc_any_outbound : ssrc_any_inbound
        // Packets that NACKs bring back arrive late: a window of 1,024 packets is more than 3 s of video at 2.5 Mbit/s.
        policy.window_size = 1_024
        policy.allow_repeat_tx = 0
        var pointer: OpaquePointer?
        let make: (UnsafeRawBufferPointer) -> srtp_err_status_t = { key in
            // libsrtp only reads the key during the call; its pointer is mutable for historical reasons.
            policy.key = UnsafeMutablePointer(mutating: key.baseAddress?.assumingMemoryBound(to: UInt8.self))
            return srtp_create(&pointer, &policy)
        }
        let created = direction == .outbound ? keys.withLocal(make) : keys.withRemote(make)
        guard created == srtp_err_status_ok, let pointer else { throw SRTPError(code: Int(created.rawValue)) }
        session = Session(taking: pointer)
    }

    mutating func protect(
        _ buffer: UnsafeMutableRawBufferPointer, length: Int, _ isWhole: Shape, _ operation: Operation
    ) -> Int? {
        var count = Int32(clamping: length)
        guard length <= buffer.count - SRTPTransform.maximumOverhead, isWhole(buffer, length),
            operation(session.pointer, buffer.baseAddress, &count) == srtp_err_status_ok,
            (0...buffer.count).contains(Int(count))
        else {
            counters.protectRefused &+= 1
            return nil
        }
        return Int(count)
    }

    /// - Parameter plain: length without what the protection has appended.
    mutating func unprotect(
        _ buffer: UnsafeMutableRawBufferPointer, length: Int, plain: Int, _ isWhole: Shape, _ operation: Operation
    ) -> Int? {
        guard length <= buffer.count, isWhole(buffer, plain) else {
            counters.malformed &+= 1
            return nil
        }
        var count = Int32(clamping: length)
        let status = operation(session.pointer, buffer.baseAddress, &count)
        if status == srtp_err_status_ok, (0...buffer.count).contains(Int(count)) { return Int(count) }
        counters.unprotectRefused &+= 1
        if status == srtp_err_status_replay_fail || status == srtp_err_status_replay_old { counters.replayed &+= 1 }
        return nil
    }

    private final class Session {
        let pointer: OpaquePointer
        init(taking pointer: OpaquePointer) { self.pointer = pointer }
        deinit { srtp_dealloc(pointer) }
    }
}
